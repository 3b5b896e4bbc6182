"""Fixtures of the tests of keepers' links."""

from __future__ import annotations

import pytest

from tests.training_services.keepers.link_rig import Rig


@pytest.fixture
def rig() -> Rig:
    rig = Rig()
    rig.sync(all=True)
    return rig
