"""NNI's connections over which commands are sent: one over HTTP, one over a WebSocket."""
