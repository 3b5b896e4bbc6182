"""Not there: NNI's annotations. The import says what to use instead."""

raise ModuleNotFoundError(
    "nni.tools.annotation is not a part of nnimgr, and NNI 3 does not support annotations: write a search "
    "space, and call nni.get_next_parameter() in the trial."
)
