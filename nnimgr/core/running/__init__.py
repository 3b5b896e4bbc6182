"""Runs one experiment: the runner's loop, its mailbox, the search, and the requests of users."""
