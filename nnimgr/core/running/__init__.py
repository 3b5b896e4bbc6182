"""What runs one experiment: its loop, its mailbox, its search, and what users ask of it."""
