"""REST API of the server: routes for experiments and trials, event streams, and access control."""
