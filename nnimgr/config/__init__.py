"""Reading and checking of experiment configurations.

``load_config`` reads a file, ``load_text`` reads a text, and ``read_canonical`` reads the form in which a
configuration is stored. ``apply_update`` changes a field of a running experiment. All errors of a
configuration are reported together in one ``ConfigError``.
"""

from nnimgr.config.load import Loaded, check_config, load_config, load_text, read_canonical
from nnimgr.config.model import AlgorithmConfig, ExperimentConfig, LogLevel
from nnimgr.config.parameter_sets import check_constraints, check_feasibility, feasible_share, initial_sets
from nnimgr.config.problems import ConfigError, Problem
from nnimgr.config.references import ReferenceUnresolved, resolve_secrets
from nnimgr.config.trial_needs import refuse_needs
from nnimgr.config.update import UPDATABLE, apply_update, apply_updates

__all__ = [
    "UPDATABLE",
    "AlgorithmConfig",
    "ConfigError",
    "ExperimentConfig",
    "Loaded",
    "LogLevel",
    "Problem",
    "ReferenceUnresolved",
    "apply_update",
    "apply_updates",
    "check_config",
    "check_constraints",
    "check_feasibility",
    "feasible_share",
    "initial_sets",
    "load_config",
    "load_text",
    "read_canonical",
    "refuse_needs",
    "resolve_secrets",
]
