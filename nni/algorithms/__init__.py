"""The built-in algorithms under the import paths that they have in NNI."""
