"""Requests of users to a runner. The facts of a request are committed in one turn (pass of the runner's
loop).
"""

from __future__ import annotations

import abc
import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

from nnimgr.config import AlgorithmConfig, ExperimentConfig, check_feasibility
from nnimgr.core.running import requests
from nnimgr.core.running.imported_results import ImportedResults, judge
from nnimgr.core.running.mailbox import Builder
from nnimgr.core.running.new_trials import FailedTrial, TrialAddition, rerun
from nnimgr.rules import facts as f
from nnimgr.rules.state import AddedTrial, ExperimentState

__all__ = ["TakesRequests"]


class TakesRequests(abc.ABC):
    """Part of a runner that handles users' requests to change the experiment.

    ``check_tuner`` raises ConfigError for a tuner that the experiment's Python cannot create. The check
    blocks its thread.
    """

    def __init__(self, state: ExperimentState, check_tuner: Callable[[AlgorithmConfig], None] | None) -> None:
        self.state = state
        self._check_tuner = check_tuner
        self._rerunning, self._changing = asyncio.Lock(), asyncio.Lock()
        self._config: ExperimentConfig | None = None

    @abc.abstractmethod
    async def request(self, build: Builder) -> Sequence[f.Fact]:
        """Commit the facts that ``build`` returns, and return these facts.

        ``build`` is called with the state at the beginning of a turn, and may raise RequestRefused.
        """

    @property
    @abc.abstractmethod
    def outstanding(self) -> int:
        """Return the number of suggestions that were requested and have not arrived."""

    async def add_trial(
        self,
        parameters: Any,
        *,
        key: str | None = None,
        origin: f.Origin | None = None,
        raise_limit: bool = False,
    ) -> AddedTrial:
        """Add a customised trial, or with ``origin`` a fork of another trial. If a previous request had the
        same ``key``, return its trial instead. ``raise_limit``: if maxTrialNumber is reached, raise it for
        this trial.

        Raise RequestRefused, or ValueError for parameters that are not JSON.
        """
        addition = TrialAddition(
            parameters,
            outstanding=self.outstanding,
            key=key,
            origin=origin,
            raise_limit=self._raise_limit if raise_limit else None,
        )
        async with self._changing if raise_limit else nullcontext():
            await self.request(addition)
        assert addition.added is not None
        return addition.added

    def _raise_limit(self, number: int) -> Builder:
        return self._record(self._changed({"maxTrialNumber": number}))

    def _changed(self, changes: Mapping[str, Any]) -> ExperimentConfig:
        state = self.state
        elapsed = state.active_for(state.last_at) if state.last_at else state.active
        return requests.changed_config(self.config, changes, elapsed=elapsed)

    async def rerun(self, find: Callable[[], Sequence[FailedTrial]]) -> Sequence[f.Suggested]:
        """Rerun the failed trials that ``find`` returns. Raise errors of ``find``, or RequestRefused.

        ``find`` reads the database in a thread. Only one call runs at a time, so that ``find`` of the next
        call does not return trials that were just rerun.
        """
        async with self._rerunning:
            trials = await asyncio.to_thread(find)
            facts = await self.request(rerun(trials))
            return [fact for fact in facts if isinstance(fact, f.Suggested)]

    async def stop_trial(self, trial_id: str) -> None:
        """Order a trial to stop; return after the order is committed. Raise UnknownTrial."""
        await self.request(requests.stop_trial(trial_id))

    async def stop_trials(self, trial_ids: Sequence[str]) -> set[str]:
        """Order all unfinished trials in ``trial_ids`` to stop; return the ids of these trials after the
        commit.
        """
        facts = await self.request(requests.stop_trials(trial_ids))
        return {fact.trial_id for fact in facts if isinstance(fact, f.StopRequested)}

    async def pause_trial(self, trial_id: str) -> None:
        """Pause a trial; return after the order is committed. Raise UnknownTrial or RequestRefused."""
        await self.request(requests.pause_trial(trial_id))

    async def resume_trial(self, trial_id: str) -> None:
        """Continue a paused trial; return after the commit. Raise UnknownTrial or RequestRefused."""
        await self.request(requests.resume_trial(trial_id))

    async def lose_trial(self, trial_id: str) -> None:
        """Declare a trial on a silent machine as lost; return after the commit.

        Raise UnknownTrial or RequestRefused.
        """
        await self.request(requests.lose_trial(trial_id))

    async def save_trial(self, trial_id: str) -> None:
        """Ask a running trial to save its state; return after the commit.

        Raise UnknownTrial or RequestRefused.
        """
        await self.request(requests.save_trial(trial_id))

    async def pin_checkpoint(
        self, trial_id: str, attempt: int, number: int, *, pinned: bool, saved: f.Origin | None
    ) -> None:
        """Pin a checkpoint, or take its pin back; return after the commit. Raise RequestRefused.

        ``saved``: the checkpoint as the database has it, or None.
        """
        await self.request(requests.pin_checkpoint(trial_id, attempt, number, pinned=pinned, saved=saved))

    @property
    def config(self) -> ExperimentConfig:
        """Return the experiment's configuration, which is parsed once and replaced by each change."""
        if self._config is None:
            self._config = requests.read_config(self.state)
        return self._config

    async def change_config(self, changes: Mapping[str, Any]) -> None:
        """Change top-level fields of the configuration; the value None removes a limit.

        Only one call runs at a time, so that exactly the checked configuration is recorded. Raise ConfigError
        or RequestRefused.
        """
        async with self._changing:
            after = self._changed(changes)
            if after.tuner is not self.config.tuner and self._check_tuner is not None:
                await asyncio.to_thread(self._check_tuner, after.tuner)
            if after.search_space_constraints:
                await asyncio.to_thread(check_feasibility, after)  # in a thread, because the check is slow
            await self.request(self._record(after))

    def _record(self, after: ExperimentConfig) -> Builder:
        """Return a builder of the fact that ``after`` replaces the configuration."""
        record = requests.record_config(self.config, after)

        def build(state: ExperimentState) -> Sequence[f.Fact]:
            facts = record(state)
            self._config = after  # actions after the commit need the new configuration
            return facts

        return build

    async def import_data(self, records: Sequence[Mapping[str, Any]]) -> ImportedResults:
        """Import results of other experiments for the tuner. Return which of them the tuner gets.

        Raise RequestRefused.
        """
        await self.request(await asyncio.to_thread(requests.import_data, records))
        return await asyncio.to_thread(judge, self.config, records)
