"""The function for ``nnictl hello``, which writes an example experiment, under its import path in NNI."""

from nni.tools.nnictl._verbs import verb

__all__ = ["create_example"]

create_example = verb("hello")
