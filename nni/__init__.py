"""Python package ``nni``, for code that was written for NNI.

``import nni`` loads only the functions for trials; all other names are loaded when they are first used.
"""

from __future__ import annotations

from nni._trial import (
    get_current_parameter,
    get_experiment_id,
    get_next_parameter,
    get_next_parameters,
    get_sequence_id,
    get_trial_id,
    get_trial_seed,
    report_final_result,
    report_intermediate_result,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "NoMoreTrialError",
    "get_current_parameter",
    "get_experiment_id",
    "get_next_parameter",
    "get_next_parameters",
    "get_sequence_id",
    "get_trial_id",
    "get_trial_seed",
    "report_final_result",
    "report_intermediate_result",
]

__version__ = "0.2.0"

_ELSEWHERE = {
    name: module
    for module, names in {
        "nnimgr.algorithm": "NoMoreTrialError ClassArgsValidator",
        "nni._checkpoint": "save_checkpoint load_checkpoint should_checkpoint",
        "nni._trace": "trace dump load",
        "nni._log": "silence_stdout enable_global_logging",
        "nni.experiment": "Experiment",
        "nni.runtime.env_vars": "dispatcher_env_vars",
        "nni.common.framework": "set_default_framework get_default_framework shortcut_module "
        "shortcut_framework",
        "nni._space": "choice uniform quniform loguniform qloguniform normal qnormal",
    }.items()
    for name in names.split()
}


def __getattr__(name: str) -> Any:
    """Load a name of this package when it is first used (PEP 562). Raise AttributeError for an
    unknown name.
    """
    if name.startswith("_"):
        raise AttributeError(f"module 'nni' has no attribute '{name}'")
    import importlib.util

    source = _ELSEWHERE.get(name)
    try:
        if source is None:
            return importlib.import_module(f"nni.{name}")
        return getattr(importlib.import_module(source), name)
    except ModuleNotFoundError as error:
        sentence = f"module 'nni' has no attribute '{name}'"
        if importlib.util.find_spec("nnimgr") is None:
            sentence += (
                f" here: {error}. This copy of nni has only the functions for trials; install "
                "nnimgr in this environment for all others."
            )
        elif error.name != f"nni.{name}":
            sentence += f": {error}"
        raise AttributeError(sentence) from error
