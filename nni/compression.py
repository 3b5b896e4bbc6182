"""Placeholder for NNI's model compression, which nnimgr does not have.

Importing it raises an error that names alternatives.
"""

raise ModuleNotFoundError(
    "nni.compression, NNI's model compression, is not a part of nnimgr: "
    "use torch.nn.utils.prune and torch.ao.quantization of PyTorch instead.",
)
