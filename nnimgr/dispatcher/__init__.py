"""User algorithms, each in a child process of its own, and the lines they speak with the server."""
