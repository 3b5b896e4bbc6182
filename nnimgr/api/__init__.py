"""REST API: routes to NNIManager, event streams, and access control."""
