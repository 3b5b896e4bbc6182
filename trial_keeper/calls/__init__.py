"""The keeper's calls to the server: connections, the sync call, and streams of files to the server."""
