"""Conversion of configurations of NNI's first format (v1)."""

from __future__ import annotations

from typing import Any

__all__ = ["to_v2"]


def to_v2(v1: dict[str, Any]) -> dict[str, Any]:
    """Convert a configuration of the first format to the second one: the arguments of ``ExperimentConfig``.

    Raise nnimgr's ConfigError, with every field that cannot be converted.
    """
    import json

    from nnimgr.config.document import Document
    from nnimgr.config.v1 import convert

    return dict(convert(Document(None, json.dumps(v1))).value)
