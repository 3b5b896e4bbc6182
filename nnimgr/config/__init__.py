"""Reading and checking experiment configurations.

``load_config`` reads a file, ``load_text`` a text, ``read_canonical`` the stored form, ``apply_update``
changes a field of a running experiment; faults come as one ``ConfigError`` that holds all of them.
"""

from nnimgr.config.load import Loaded, check_config, load_config, load_text, read_canonical
from nnimgr.config.model import AlgorithmConfig, ExperimentConfig, LogLevel
from nnimgr.config.problems import ConfigError, Problem
from nnimgr.config.references import ReferenceUnresolved, resolve_secrets
from nnimgr.config.sets import check_constraints, check_feasibility, feasible_share, initial_sets
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
    "resolve_secrets",
]
