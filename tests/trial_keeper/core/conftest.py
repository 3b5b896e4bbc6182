"""Fixture of tests of the core: a host in memory."""

from __future__ import annotations

import pytest

from tests.trial_keeper.core.rig import Rig


@pytest.fixture
def rig() -> Rig:
    """Return a host whose keeper has called the server once."""
    made = Rig()
    made.greet()
    return made
