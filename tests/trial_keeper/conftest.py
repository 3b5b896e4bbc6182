"""The host that tests of a whole keeper begin with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.trial_keeper.harness import Host, host


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Host]:
    """A host with a running keeper."""
    with host(tmp_path) as found:
        yield found
