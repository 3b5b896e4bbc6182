"""NNI's channels for commands: ``http`` and ``websocket``."""
