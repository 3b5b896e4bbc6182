"""NNI's import paths of the built-in algorithms."""
