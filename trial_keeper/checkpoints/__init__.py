"""Transfer of checkpoints between this machine and the server."""
