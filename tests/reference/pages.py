"""The generated pages of ``docs/reference``."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tests.reference import commands, configuration, rest

__all__ = ["FOLDER", "PAGES"]

FOLDER = configuration.DESCRIPTIONS.parent
PAGES: Mapping[str, Callable[[], str]] = {
    "configuration.md": configuration.render,
    "nnictl.md": commands.nnictl_page,
    "nnimgr.md": commands.server_page,
    "rest.md": rest.render,
}
