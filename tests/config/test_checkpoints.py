"""The field ``checkpoints``: how many saved states of trials are kept, and their errors."""

from __future__ import annotations

from datetime import timedelta

import pytest

from nnimgr.rules.terms import Limits
from tests.config.loading import MINIMAL, Faults, Load


def test_all_fields(load: Load) -> None:
    fields = "keepLast: 3, keepBest: 1, limit: 50GiB, keep: none, saveWithin: 2m"
    loaded = load(f"{MINIMAL}checkpoints: {{{fields}}}\n").config
    limits = loaded.limits()
    assert (limits.checkpoints_kept, limits.checkpoints_best, limits.keeps_copies) == (3, 1, False)
    assert (limits.checkpoints_limit, limits.save_within) == (50 << 30, timedelta(minutes=2))
    assert loaded.canonical()["checkpoints"]["limit"] == "50GiB"


def test_the_defaults(load: Load) -> None:
    limits, usual = load(MINIMAL).config.limits(), Limits(trial_concurrency=1)
    assert (limits.checkpoints_best, limits.checkpoints_limit) == (0, None)
    assert limits.checkpoints_kept == usual.checkpoints_kept


@pytest.mark.parametrize(
    ("text", "size"), [("1kb", 1024), ("1.5 MiB", 3 << 19), ("2TiB", 2 << 40), ("7b", 7)]
)
def test_units_of_the_limit(load: Load, text: str, size: int) -> None:
    assert load(f"{MINIMAL}checkpoints: {{limit: {text}}}\n").config.limits().checkpoints_limit == size


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ("keepBest: -1", "checkpoints.keepBest: must be at least 0, not -1"),
        ("limit: 50", "checkpoints.limit: 50 has no unit; write text like 500MiB, 50GiB or 1.5TiB"),
        ("limit: 0gb", "checkpoints.limit: '0gb' is not larger than zero"),
        (
            "limit: 5 GiBs",
            "checkpoints.limit: '5 GiBs' is not a number with one of the units b, kb, mb, gb, tb,",
        ),
    ],
)
def test_errors(faults: Faults, fields: str, fault: str) -> None:
    assert fault in "\n".join(faults(f"{MINIMAL}checkpoints: {{{fields}}}\n"))
