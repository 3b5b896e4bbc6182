"""Child processes that run tuners and assessors, one process each, and their protocol with the server."""
