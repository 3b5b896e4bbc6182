"""Child processes, one for each user algorithm, and the protocol that they speak with the server."""
