"""Runs one experiment: its loop, its mailbox, its search, and the requests of its users."""
