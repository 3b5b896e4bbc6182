"""Server side of the keepers: their protocol, their hosts, and the service that runs jobs through them."""
