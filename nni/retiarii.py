"""Placeholder for NNI's old module for neural architecture search, which nnimgr does not have.

Importing it raises an error that names an alternative.
"""

raise ModuleNotFoundError(
    "nni.retiarii, NNI's neural architecture search, is not a part of nnimgr: "
    "search over the choices of a search space instead, with nested choices for the parameters of layers.",
)
