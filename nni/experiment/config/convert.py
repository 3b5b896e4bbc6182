"""Function that converts configurations of NNI's old format (v1) to the current format (v2)."""

from __future__ import annotations

from typing import Any

__all__ = ["to_v2"]


def to_v2(v1: dict[str, Any]) -> dict[str, Any]:
    """Convert a configuration of NNI's old format (v1) to the arguments of ``ExperimentConfig``.

    Raise nnimgr's ConfigError, with every field that cannot be converted.
    """
    import json

    from nnimgr.config.document import Document
    from nnimgr.config.v1 import convert

    return dict(convert(Document(None, json.dumps(v1))).value)
