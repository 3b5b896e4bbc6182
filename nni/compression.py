"""Not there: NNI's model compression. The import says what to use instead."""

raise ModuleNotFoundError(
    "nni.compression, NNI's model compression, is not a part of nnimgr: "
    "use torch.nn.utils.prune and torch.ao.quantization of PyTorch instead.",
)
