"""The server process, which manages the experiments of one port."""
