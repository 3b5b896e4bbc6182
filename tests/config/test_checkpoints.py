"""The field ``checkpoints``: how many saved states of trials are kept, and their errors."""

from __future__ import annotations

import importlib.util
from datetime import timedelta
from pathlib import Path

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
            "storage: '/mnt/x'",
            "checkpoints.storage: must be a URL such as s3://bucket/folder, gs://bucket/folder or",
        ),
        (
            "storage: 's3://key:hidden@bucket/x'",
            "checkpoints.storage: must not contain a password: the storage's driver reads it from the",
        ),
        (
            "storage: s4://bucket",
            "checkpoints.storage: there is no storage with the protocol s4://; usual ones are s3://, gs://,",
        ),
        (
            "storage: 'file:///nowhere/x'",
            "checkpoints.storage: the folder /nowhere/x does not exist; create it, or mount its disk",
        ),
        (
            "storage: s3://bucket, keep: none",
            "'storage' gets the server's copies, but 'keep: none' makes none; leave one out",
        ),
        (
            "limit: 5 GiBs",
            "checkpoints.limit: '5 GiBs' is not a number with one of the units b, kb, mb, gb, tb,",
        ),
    ],
)
def test_errors(faults: Faults, fields: str, fault: str) -> None:
    found = "\n".join(faults(f"{MINIMAL}checkpoints: {{{fields}}}\n"))
    assert fault in found and "hidden" not in found


def test_a_storage(load: Load, tmp_path: Path) -> None:
    url = f"file://{tmp_path}"
    loaded = load(f"{MINIMAL}checkpoints: {{storage: '{url}'}}\n").config
    assert loaded.limits().stores_copies and not load(MINIMAL).config.limits().stores_copies
    assert loaded.canonical()["checkpoints"]["storage"] == url


def test_a_storage_needs_a_library(faults: Faults, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda module: None)
    assert "\n".join(faults(f"{MINIMAL}checkpoints: {{storage: 'file://{tmp_path}'}}\n")).endswith(
        "checkpoints.storage: needs fsspec, which this Python does not have; install it with: "
        "pip install 'nnimgr[storage]'"
    )


def test_a_storage_for_allocations_of_slurm(load: Load, tmp_path: Path) -> None:
    slurm = MINIMAL.replace("platform: local", "platform: slurm\n  timeLimit: 1h")
    assert load(f"{slurm}checkpoints: {{storage: 'file://{tmp_path}'}}\n").config.platform == "slurm"


def test_a_storage_for_allocations_of_ray(load: Load, tmp_path: Path) -> None:
    ray = MINIMAL.replace("platform: local", "platform: ray\n  address: http://head:8265\n  token: t")
    assert load(f"{ray}checkpoints: {{storage: 'file://{tmp_path}'}}\n").config.platform == "ray"


def test_a_storage_without_effect_is_reported(faults: Faults, tmp_path: Path) -> None:
    asked = MINIMAL.replace("platform: local", "platform: ask").replace(
        "trialCommand: python3 trial.py\n", ""
    )
    storage = f"checkpoints: {{storage: 'file://{tmp_path}'}}\n"
    assert "trials with 'multiPhase' continue from no checkpoint, so leave the field out" in "\n".join(
        faults(f"{MINIMAL}multiPhase: true\n{storage}")
    )
    assert 'the platform "ask" makes no copies of checkpoints, so leave the field out' in "\n".join(
        faults(f"{asked}{storage}")
    )
