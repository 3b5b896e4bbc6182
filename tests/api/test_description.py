"""The OpenAPI document from which the dashboard's types are generated."""

from __future__ import annotations

from pathlib import Path

from nnimgr.api.description import text

KEPT = Path(__file__).parents[2] / "webui" / "openapi.json"


def test_the_dashboard_knows_the_api_as_it_is() -> None:
    """If this fails, run ``python -m nnimgr.api.description > webui/openapi.json``."""
    assert KEPT.read_text(encoding="utf-8") == text()
