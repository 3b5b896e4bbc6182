"""Platform of a test: what the contract suite asks of whoever tests a training service."""

from __future__ import annotations

import abc
from enum import Enum, auto

from training_services.base import TrainingService

__all__ = ["Behaviour", "ContractPlatform"]


class Behaviour(Enum):
    """What a trial does in the contract's tests."""

    REPORTS = auto()  # prints "hello", reports 1 and 2, then 3 as the final result; exits with 0
    REPORTS_LATER = auto()  # does the same after ``ContractPlatform.release``
    SLEEPS = auto()  # starts a child in its own session; both run until they are stopped
    # Continues from a checkpoint, whose state is a number: adds 1 to the number, or takes 1 without a
    # checkpoint. Reports the number, saves it as a checkpoint with this step, reports it as the final result,
    # exits with 0. Only needed for services whose ``capabilities.checkpoints`` is True.
    CONTINUES = auto()


class ContractPlatform(abc.ABC):
    """Platform under test, with one experiment. A test of a training service implements it."""

    @abc.abstractmethod
    def make(self) -> TrainingService:
        """Return a new, unopened service of the experiment. The test has closed the last one before."""

    @abc.abstractmethod
    def behave(self, trial_id: str, behaviour: Behaviour) -> None:
        """Set what the trial does in its next attempts."""

    @abc.abstractmethod
    def release(self, trial_id: str) -> None:
        """Let a trial with the behaviour REPORTS_LATER continue."""

    @abc.abstractmethod
    def processes(self, trial_id: str) -> int:
        """Return the number of running processes of the trial."""
