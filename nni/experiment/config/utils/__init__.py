"""Helper functions for the configuration classes, named as in NNI."""

from nni.experiment.config.utils.internal import (
    camel_case,
    case_insensitive,
    get_base_path,
    get_ipv4_address,
    resolve_path,
    set_base_path,
    unset_base_path,
)
from nni.experiment.config.utils.public import (
    PathLike,
    canonical_gpu_indices,
    is_missing,
    parse_memory_size,
    parse_time,
    validate_gpu_indices,
)

__all__ = [
    "PathLike",
    "camel_case",
    "canonical_gpu_indices",
    "case_insensitive",
    "get_base_path",
    "get_ipv4_address",
    "is_missing",
    "parse_memory_size",
    "parse_time",
    "resolve_path",
    "set_base_path",
    "unset_base_path",
    "validate_gpu_indices",
]
