"""Function that checks an experiment's configuration, named as in NNI's command line."""

from __future__ import annotations

from typing import Any

from nni.experiment.config.convert import to_v2
from nni.experiment.config.utils import parse_time

__all__ = ["parse_time", "validate_all_content"]


def validate_all_content(experiment_config: dict[str, Any], config_path: str) -> None:
    """Raise nnimgr's ConfigError, with every error, if a configuration is not valid.

    The old format (v1) is converted first.
    """
    import json
    import os
    from pathlib import Path

    from nnimgr.config import load_text

    plain = to_v2(experiment_config) if "trainingServicePlatform" in experiment_config else experiment_config
    load_text(json.dumps(plain), base=Path(config_path).absolute().parent, environ=os.environ)
