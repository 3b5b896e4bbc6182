"""Fixture of tests with a whole keeper: a host."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.trial_keeper.harness import Host, host


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Host]:
    """Yield a host with a running keeper."""
    with host(tmp_path) as found:
        yield found
