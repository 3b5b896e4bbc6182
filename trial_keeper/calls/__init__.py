"""The keeper's calls to the server: connections, the sync call, and uploads of files."""
