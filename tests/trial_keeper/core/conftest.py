"""The host in memory that tests of the core begin with."""

from __future__ import annotations

import pytest

from tests.trial_keeper.core.rig import Rig


@pytest.fixture
def rig() -> Rig:
    """A host whose keeper has called the server once."""
    made = Rig()
    made.greet()
    return made
