"""NNI's import paths of helpers for experiments of this user and machine."""
