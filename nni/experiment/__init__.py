"""NNI's Python API for experiments."""

from nni.experiment.config import AlgorithmConfig, CustomAlgorithmConfig, ExperimentConfig
from nni.experiment.data import TrialHyperParameters, TrialJob, TrialMetricData, TrialResult
from nni.experiment.experiment import Experiment, RunMode

__all__ = [
    "AlgorithmConfig",
    "CustomAlgorithmConfig",
    "Experiment",
    "ExperimentConfig",
    "RunMode",
    "TrialHyperParameters",
    "TrialJob",
    "TrialMetricData",
    "TrialResult",
]
