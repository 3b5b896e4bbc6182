"""A cluster of Slurm for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.slurm.cluster import SlurmCluster
from training_services.testing import core_double


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slurm may need minutes, for example to notice after a restart that a job has ended."""
    monkeypatch.setattr(core_double, "DEADLINE_S", 240.0)


@pytest.fixture(scope="session")
def slurm() -> Iterator[SlurmCluster]:
    with SlurmCluster() as cluster:
        yield cluster
