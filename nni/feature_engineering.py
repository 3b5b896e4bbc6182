"""Not there: NNI's feature selectors. The import says what to use instead."""

raise ModuleNotFoundError(
    "nni.feature_engineering, NNI's feature selectors, is not a part of nnimgr: "
    "use sklearn.feature_selection of scikit-learn instead.",
)
