"""``nnictl doctor --nni``: lists what nnimgr does differently from NNI with a configuration file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnimgr.cli.configuration import refusal
from nnimgr.cli.terminal import Terminal
from nnimgr.client.errors import ClientError

if TYPE_CHECKING:
    from nnimgr.config.nni_differences import Difference

__all__ = ["compare"]


def compare(file: str, terminal: Terminal) -> int:
    """Print how nnimgr treats a configuration file differently from NNI. Nothing is started.

    If ``nnictl create`` would refuse the file, raise ClientError, or return 1 with ``--json``.
    """
    from nnimgr.config import ConfigError
    from nnimgr.config.nni_differences import differences
    from nnimgr.config.nni_file import NniFile

    try:
        written = NniFile(Path(file))
        found = differences(written)
    except ConfigError as error:
        raise refusal(file, error) from error
    refused = _refused(file)
    if terminal.as_json:
        terminal.json(_plain(file, written.first is not None, found, refused))
        return 0 if refused is None else 1
    for difference in found:
        terminal.say(str(difference))
    terminal.say(_summary(found))
    if refused is not None:
        raise refused
    terminal.say(f"nnimgr can run this file: nnictl create --config {file}")
    return 0


def _refused(file: str) -> ClientError | None:
    """Return the error that ``nnictl create --dry-run`` would report for this file, or None."""
    from nnimgr.cli.manifest import plan_job
    from nnimgr.config import ConfigError, load_config

    try:
        config = load_config(Path(file)).config
    except ConfigError as error:
        return refusal(file, error)
    job = plan_job(config, "experiment", os.environ)
    return ClientError(job.verdict) if job is not None and job.accepted is False else None


def _summary(found: list[Difference]) -> str:
    if not found:
        return "No field of this file is treated differently from NNI."
    work = sum(difference.needs_work for difference in found)
    fields = "1 difference" if len(found) == 1 else f"{len(found)} differences"
    return (
        f"{fields} from NNI 3.0, {work} of them with something to change or decide. "
        "All differences: docs/reference/nni.md"
    )


def _plain(file: str, v1: bool, found: list[Difference], refused: ClientError | None) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "file": file,
        "format": "v1" if v1 else "v2",
        "runs": refused is None,
        "differences": [
            {
                "file": str(difference.place.file),
                "line": difference.place.line,
                "field": difference.place.field,
                "nni": difference.nni,
                "nnimgr": difference.here,
                "todo": difference.todo,
                "needsWork": difference.needs_work,
            }
            for difference in found
        ],
    }
    if refused is not None:
        plain["error"] = {"message": "\n".join(refused.lines), "problems": refused.problems}
    return plain
