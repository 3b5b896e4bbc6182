"""The training service that is built for an experiment."""

from __future__ import annotations

from pathlib import Path

import pytest

from nnimgr.config import read_canonical
from nnimgr.core.managing.assembly import Assembly
from nnimgr.rules.state import ExperimentState
from tests.api.stored_life import full_config
from training_services.base import ServiceUnavailable
from training_services.keepers.hub import KeeperHub
from training_services.placement.ledger import HostLedger
from training_services.tools import ServiceTools


def test_an_experiment_that_has_lost_its_environment_says_so(tmp_path: Path) -> None:
    """A deletion that has failed halfway leaves such an experiment."""
    assembly = Assembly(ServiceTools(hub=KeeperHub(), ledger=HostLedger()))
    with pytest.raises(ServiceUnavailable, match=r"environ\.json cannot be read: No such file or directory$"):
        assembly.service(ExperimentState(id="exp"), tmp_path, read_canonical(full_config(tmp_path)))
