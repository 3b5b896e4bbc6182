"""NNI's import path of the command that writes an example."""

from nni.tools.nnictl._verbs import verb

__all__ = ["create_example"]

create_example = verb("hello")
