"""Trial that cross-validates one classifier on the breast cancer data that ships with scikit-learn.

Outside an experiment (``python3 trial.py``) it uses the default parameters: a random forest with
scikit-learn's defaults, on data that are not scaled. Its accuracy is then 0.9613; the experiment finds
0.9807.
"""

from __future__ import annotations

import warnings
from typing import Any

from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVC

import nni

DEFAULTS = {"scaling": "none", "model": {"_name": "random_forest"}}
FOLDS = 10

SCALERS = {"none": None, "standard": StandardScaler, "minmax": MinMaxScaler}
MODELS = {"logistic_regression": LogisticRegression, "svm": SVC, "random_forest": RandomForestClassifier}


def build(parameters: dict[str, Any]) -> Any:
    """Return the classifier for a parameter set."""
    arguments = dict(parameters["model"])
    classifier = MODELS[arguments.pop("_name")](random_state=0, **arguments)
    scaler = SCALERS[parameters["scaling"]]
    return classifier if scaler is None else make_pipeline(scaler(), classifier)


def main() -> None:
    parameters = nni.get_next_parameter(default=DEFAULTS)
    inputs, labels = load_breast_cancer(return_X_y=True)
    warnings.simplefilter("ignore")  # solvers warn that they do not converge on unscaled data
    accuracies = []
    for train, test in StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(inputs, labels):
        model = build(parameters).fit(inputs[train], labels[train])
        accuracies.append(model.score(inputs[test], labels[test]))
        nni.report_intermediate_result(sum(accuracies) / len(accuracies))
    nni.report_final_result(sum(accuracies) / len(accuracies))


if __name__ == "__main__":
    main()
