"""The generated pages of ``docs/reference``."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tests.reference import configuration, nnictl, rest

__all__ = ["FOLDER", "PAGES"]

FOLDER = configuration.DESCRIPTIONS.parent
PAGES: Mapping[str, Callable[[], str]] = {
    "configuration.md": configuration.render,
    "nnictl.md": nnictl.render,
    "rest.md": rest.render,
}
