"""The field ``gang``: trials of several worker processes."""

from __future__ import annotations

import pytest

from tests.config.loading import Faults, Load
from tests.config.test_launch import FUNCTION, LOCAL
from training_services.base import Gang

COMMAND = LOCAL + "trialCommand: python3 train.py\n"


@pytest.mark.parametrize("processes", ["4", "gpu", "cpu", "auto"])
def test_the_number_of_processes(load: Load, processes: str) -> None:
    config = load(COMMAND + f"gang: {{processes: {processes}}}\nmaxRetries: {{userError: 2}}\n").config
    assert config.gang_of_trials() == Gang(processes=processes, max_restarts=2)
    assert load(COMMAND).config.gang_of_trials() is None


@pytest.mark.parametrize("processes", ["0", "2000", "many", "1.5"])
def test_what_is_no_number_is_refused(faults: Faults, processes: str) -> None:
    (fault,) = faults(COMMAND + f"gang: {{processes: {processes}}}\n")
    assert fault.startswith("exp.yml:9:8: gang.processes: must be a whole number from 1 to 1024, or ")


def test_it_cannot_be_used_together_with_preload(faults: Faults) -> None:
    (fault,) = faults(FUNCTION + "preload: [torch]\ngang: {processes: 2}\n")
    assert fault == "exp.yml:10:1: gang: cannot be used together with preload"


def test_a_command_that_starts_processes_itself_gets_a_warning(load: Load) -> None:
    (warning,) = load(LOCAL + "trialCommand: torchrun train.py\ngang: {processes: 2}\n").warnings
    assert "torchrun starts further processes" in str(warning)
