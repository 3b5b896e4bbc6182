"""Modules that user code imports from NNI's internals."""
