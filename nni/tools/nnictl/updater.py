"""Functions that change running experiments, named as in NNI's command line."""

from __future__ import annotations

import os
from typing import Any

from nni.tools.nnictl._verbs import verb
from nni.tools.nnictl.common_utils import get_json_content

__all__ = [
    "import_data",
    "load_search_space",
    "update_concurrency",
    "update_duration",
    "update_searchspace",
    "update_trialnum",
    "validate_digit",
    "validate_file",
]

update_searchspace = verb("update searchspace", "id", filename="--filename")
update_concurrency = verb("update concurrency", "id", value="--value")
update_duration = verb("update duration", "id", value="--value")
update_trialnum = verb("update trialnum", "id", value="--value")
import_data = verb("experiment import", "id", filename="--filename")


def validate_digit(value: Any, start: int, end: int) -> None:
    """Raise ValueError if ``value`` is not an integer from ``start`` to ``end``."""
    if not str(value).isdigit() or not start <= int(value) <= end:
        raise ValueError(f"value ({value}) must be an integer from {start} to {end}")


def validate_file(path: str) -> None:
    """Raise FileNotFoundError if the file does not exist."""
    if not os.path.exists(path):
        raise FileNotFoundError(f"there is no file {path}")


def load_search_space(path: str) -> Any:
    """Return the search space in a JSON file.

    Raise OSError if the file cannot be read, and ValueError if it is empty or not JSON.
    """
    content = get_json_content(path)
    if not content:
        raise ValueError(f"the search space in {path} is empty")
    return content
