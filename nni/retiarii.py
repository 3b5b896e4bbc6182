"""Not there: NNI's neural architecture search. The import says what to use instead."""

raise ModuleNotFoundError(
    "nni.retiarii, NNI's neural architecture search, is not a part of nnimgr: "
    "search over the choices of a search space instead, with nested choices for the parameters of layers.",
)
