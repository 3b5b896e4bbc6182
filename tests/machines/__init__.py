"""Machines for tests: real OpenSSH servers on this box, each a host of its own that can be mistreated."""
