"""Placeholder for NNI's annotations, which nnimgr does not have.

Importing it raises an error that names an alternative.
"""

raise ModuleNotFoundError(
    "nni.tools.annotation is not a part of nnimgr, and NNI 3 does not support annotations: write a search "
    "space, and call nni.get_next_parameter() in the trial."
)
