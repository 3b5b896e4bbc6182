"""The version number of the package ``nni`` under its import path in NNI."""

from nni import __version__

__all__ = ["__version__"]
