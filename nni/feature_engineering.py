"""Placeholder for NNI's feature selectors, which nnimgr does not have.

Importing it raises an error that names alternatives.
"""

raise ModuleNotFoundError(
    "nni.feature_engineering, NNI's feature selectors, is not a part of nnimgr: "
    "use sklearn.feature_selection of scikit-learn instead.",
)
