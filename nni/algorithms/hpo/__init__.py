"""The built-in tuners and assessors under the import paths that they have in NNI."""
