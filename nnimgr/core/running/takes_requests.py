"""The requests of users that a runner takes, each as facts of one turn."""

from __future__ import annotations

import abc
import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nnimgr.config import AlgorithmConfig, ExperimentConfig, check_feasibility
from nnimgr.core.running import requests
from nnimgr.core.running.mailbox import Builder
from nnimgr.core.running.requests import FailedTrial
from nnimgr.rules import facts as f
from nnimgr.rules.state import AddedTrial, ExperimentState

__all__ = ["TakesRequests"]


class TakesRequests(abc.ABC):
    """The part of a runner that users ask for changes.

    ``check_tuner`` raises ConfigError for a tuner that the experiment's Python could not make. It blocks.
    """

    def __init__(self, state: ExperimentState, check_tuner: Callable[[AlgorithmConfig], None] | None) -> None:
        self.state = state
        self._check_tuner = check_tuner
        self._rerunning, self._changing = asyncio.Lock(), asyncio.Lock()
        self._config: ExperimentConfig | None = None

    @abc.abstractmethod
    async def request(self, build: Builder) -> Sequence[f.Fact]:
        """Return the facts that ``build`` makes, once they are committed.

        ``build`` sees the state of the turn that takes it and may raise RequestRefused.
        """

    @property
    @abc.abstractmethod
    def outstanding(self) -> int:
        """Number of suggestions that the tuner has been asked for and has not given."""

    async def add_trial(self, parameters: Any, *, key: str | None = None) -> AddedTrial:
        """Add a customised trial; if a previous request had the same ``key``, return its trial instead.

        Raises RequestRefused, ValueError (not JSON).
        """
        addition = requests.TrialAddition(parameters, outstanding=self.outstanding, key=key)
        await self.request(addition)
        assert addition.added is not None
        return addition.added

    async def rerun(self, find: Callable[[], Sequence[FailedTrial]]) -> Sequence[f.Suggested]:
        """Run failed trials again; ``find`` reads which, in a thread. Raises what it does, RequestRefused.

        One at a time: the next one sees in the database what was run again.
        """
        async with self._rerunning:
            trials = await asyncio.to_thread(find)
            facts = await self.request(requests.rerun(trials))
            return [fact for fact in facts if isinstance(fact, f.Suggested)]

    async def stop_trial(self, trial_id: str) -> None:
        """Stop a trial; returns once that is durable. Raises UnknownTrial."""
        await self.request(requests.stop_trial(trial_id))

    async def stop_trials(self, trial_ids: Sequence[str]) -> set[str]:
        """Stop those of these trials that are alive, in one turn; returns them once that is durable."""
        facts = await self.request(requests.stop_trials(trial_ids))
        return {fact.trial_id for fact in facts if isinstance(fact, f.StopRequested)}

    async def lose_trial(self, trial_id: str) -> None:
        """Count a trial whose machine is silent as lost; returns once that is durable.

        Raises UnknownTrial, RequestRefused.
        """
        await self.request(requests.lose_trial(trial_id))

    @property
    def config(self) -> ExperimentConfig:
        """The experiment's configuration. It is parsed once; a change replaces it as a whole."""
        if self._config is None:
            self._config = requests.read_config(self.state)
        return self._config

    async def change_config(self, changes: Mapping[str, Any]) -> None:
        """Change top-level fields; None lifts a limit. Raises ConfigError, RequestRefused.

        One change at a time: what has been checked is what is recorded.
        """
        async with self._changing:
            before, state = self.config, self.state
            elapsed = state.active_for(state.last_at) if state.last_at else state.active
            after = requests.changed_config(before, changes, elapsed=elapsed)
            if after.tuner is not before.tuner and self._check_tuner is not None:
                await asyncio.to_thread(self._check_tuner, after.tuner)
            if after.search_space_constraints:
                await asyncio.to_thread(check_feasibility, after)  # it draws sets: no work for the loop
            record = requests.record_config(before, after)

            def build(state: ExperimentState) -> Sequence[f.Fact]:
                facts = record(state)
                self._config = after  # who acts on the facts after the commit needs it
                return facts

            await self.request(build)

    async def import_data(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Give the tuner results from elsewhere. Raises RequestRefused."""
        await self.request(await asyncio.to_thread(requests.import_data, records))
