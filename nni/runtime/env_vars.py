"""Values of NNI's environment variables when this module was imported: those of trials and those of the
tuner's process.
"""

from __future__ import annotations

import os
from types import SimpleNamespace

__all__ = ["dispatcher_env_vars", "trial_env_vars"]

_OF_TRIALS = (
    *("NNI_PLATFORM", "NNI_EXP_ID", "NNI_TRIAL_JOB_ID", "NNI_SYS_DIR", "NNI_OUTPUT_DIR"),
    *("NNI_TRIAL_COMMAND_CHANNEL", "NNI_TRIAL_SEQ_ID", "MULTI_PHASE", "REUSE_MODE"),
)
_OF_THE_TUNER = (
    *("SDK_PROCESS", "NNI_MODE", "NNI_CHECKPOINT_DIRECTORY", "NNI_LOG_DIRECTORY", "NNI_LOG_LEVEL"),
    *("NNI_INCLUDE_INTERMEDIATE_RESULTS", "NNI_TUNER_COMMAND_CHANNEL"),
)

trial_env_vars = SimpleNamespace(**{name: os.environ.get(name) for name in _OF_TRIALS})
dispatcher_env_vars = SimpleNamespace(**{name: os.environ.get(name) for name in _OF_THE_TUNER})
