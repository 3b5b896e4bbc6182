"""Modules of NNI's internals that users' code imports."""
