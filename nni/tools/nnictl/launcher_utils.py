"""Checks of configurations of NNI's first format (v1), under NNI's names."""

from __future__ import annotations

from typing import Any

from nni.experiment.config.convert import to_v2
from nni.experiment.config.utils import parse_time

__all__ = ["parse_time", "validate_all_content"]


def validate_all_content(experiment_config: dict[str, Any], config_path: str) -> None:
    """Raise nnimgr's ConfigError, with every error, if a configuration cannot be converted (v1) or used."""
    import json
    import os
    from pathlib import Path

    from nnimgr.config import load_text

    plain = to_v2(experiment_config) if "trainingServicePlatform" in experiment_config else experiment_config
    load_text(json.dumps(plain), base=Path(config_path).absolute().parent, environ=os.environ)
