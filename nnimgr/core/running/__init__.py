"""Running of one experiment: the loop, the mailbox, the search, and the requests of users."""
