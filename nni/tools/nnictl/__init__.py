"""Helper functions of NNI's command line under their import paths in NNI."""
