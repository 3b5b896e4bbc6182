"""NNI's import path of the version."""

from nni import __version__

__all__ = ["__version__"]
