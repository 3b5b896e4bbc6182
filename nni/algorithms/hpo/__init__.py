"""NNI's import paths of the built-in tuners and assessors."""
