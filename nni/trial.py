"""The functions for trials under their import path in NNI. Runs on Python 3.8 or newer."""

from __future__ import annotations

from nni._trial import (
    get_current_parameter,
    get_experiment_id,
    get_next_parameter,
    get_next_parameters,
    get_sequence_id,
    get_trial_id,
    get_trial_seed,
    overwrite_intermediate_seq,
    report_final_result,
    report_intermediate_result,
)

__all__ = [
    "get_current_parameter",
    "get_experiment_id",
    "get_next_parameter",
    "get_next_parameters",
    "get_sequence_id",
    "get_trial_id",
    "get_trial_seed",
    "overwrite_intermediate_seq",
    "report_final_result",
    "report_intermediate_result",
]
