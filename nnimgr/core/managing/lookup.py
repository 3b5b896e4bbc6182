"""Finds and describes experiments that a server runs or shows, and all other experiments in the index
file.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from nnimgr.core.managing.assembly import Assembly
from nnimgr.core.managing.catalog import Catalog
from nnimgr.core.managing.experiments import ExperimentSummary, UnknownExperiment, summary_of
from nnimgr.core.managing.stopped_experiments import AtRest
from nnimgr.core.managing.supervision import Supervision
from nnimgr.core.running.notices import Notice
from nnimgr.core.running.requests import RequestRefused
from nnimgr.core.running.runner import ExperimentRunner
from nnimgr.rules.facts import ExperimentStatus as E
from nnimgr.store.reader import ExperimentReader
from training_services.placement.ledger import HostLedger

__all__ = ["Lookup"]


class Lookup:
    """Part of NNIManager that finds and describes experiments, and changes nothing."""

    def __init__(
        self, *, port: int, assembly: Assembly, catalog: Catalog, at_rest: AtRest, supervision: Supervision
    ) -> None:
        self.port = port
        self._assembly, self._catalog = assembly, catalog
        self._at_rest, self._supervision = at_rest, supervision
        self._latest: str | None = None

    def get(self, experiment_id: str) -> ExperimentRunner:
        """Return the runner of an experiment that this server has open.

        Raise UnknownExperiment, or RequestRefused if the experiment has no runner now.
        """
        held = self._supervision.get(experiment_id)
        if held is None:
            if self.viewed(experiment_id):
                raise RequestRefused(f"experiment {experiment_id} is only viewed: it cannot be changed")
            if experiment_id in self._catalog:
                status = self._catalog[experiment_id].status
                state = "not open on this server"
                if status == E.STOPPED:
                    state = status
                elif status in (E.DONE, E.ERROR):
                    state = f"{status}, and the server that ran it has ended"
                raise RequestRefused(f"experiment {experiment_id} is {state}: resume it first")
            raise UnknownExperiment(experiment_id)
        if held.runner is None:
            raise RequestRefused(f"experiment {experiment_id} is not running: {held.trouble}")
        return held.runner

    def find(self, experiment_id: str) -> ExperimentRunner | None:
        """Return the runner of an experiment; None if this server has no runner for the experiment."""
        held = self._supervision.get(experiment_id)
        return held.runner if held is not None else None

    def viewed(self, experiment_id: str) -> bool:
        """Return whether this server only shows the experiment, so that none of its trials run and nothing
        can change.
        """
        return experiment_id in self._at_rest.viewed

    def trouble(self, experiment_id: str) -> str | None:
        """Return why an experiment that this server has open has no runner at present; None if it has a
        runner.
        """
        held = self._supervision.get(experiment_id)
        return held.trouble if held is not None else None

    def notices(self, experiment_id: str) -> Mapping[str, Notice]:
        """Return the current notices of an experiment by subject."""
        held = self._supervision.get(experiment_id)
        found = {} if held is None or held.runner is None else dict(held.runner.notices)
        if held is not None and held.followers is not None:
            found |= held.followers.notices
        return found

    def reader(self, experiment_id: str) -> ExperimentReader:
        """Return the reader of an experiment's database, whether the experiment runs or not. Raise
        UnknownExperiment.
        """
        return self._catalog.reader(experiment_id)

    def directory(self, experiment_id: str) -> Path:
        """Return the folder of an experiment, whose path is in the index file. Raise UnknownExperiment."""
        return self._catalog.directory(experiment_id)

    async def look_again(self) -> None:
        """Read the changes that other processes have made in the index file."""
        await self._catalog.refresh(port=self.port, has_open=self._has_open)

    async def look_for(self, experiment_id: str) -> None:
        """Read the index file again if it has changed, unless this server runs or shows the experiment.

        So an experiment is found at once after nnictl has imported, loaded or moved it, or another server has
        created it.
        """
        if not self._has_open(experiment_id):
            await self.look_again()

    def summaries(self) -> list[ExperimentSummary]:
        """Return summaries of all experiments in the index file, oldest first."""
        return [self.summary(experiment_id) for experiment_id in self._catalog.entries]

    def summary(self, experiment_id: str) -> ExperimentSummary:
        """Return the summary of an experiment. Raise UnknownExperiment."""
        entry = self._catalog[experiment_id]
        runner = self.find(experiment_id)
        return summary_of(
            entry,
            runner.state if runner is not None else None,
            reason=self.trouble(experiment_id) or "",
            served=self._has_open(experiment_id),
            active_s=runner.active().total_seconds() if runner is not None else 0.0,
        )

    def _has_open(self, experiment_id: str) -> bool:
        """Return whether this server runs the experiment or shows it read-only."""
        return experiment_id in self._supervision or self.viewed(experiment_id)

    @property
    def ledger(self) -> HostLedger:
        """Ledger that records for each machine the experiments that hold its resources."""
        return self._assembly.ledger

    @property
    def latest(self) -> str | None:
        """Return the id of the experiment that was last created, resumed or viewed on this server.

        After a start of the server, return the youngest experiment. NNI's clients, which know only one
        experiment per server, get this experiment.
        """
        return self._latest if self._latest is not None and self._latest in self._catalog else None

    def served(self) -> dict[str, str]:
        """Return the experiments that this server runs or shows: experiment id -> NNI's name of the
        status.
        """
        return dict.fromkeys(self._at_rest.viewed, str(E.VIEWED)) | {
            held.id: held.nni_status or self._catalog[held.id].status
            for held in self._supervision
            if held.id in self._catalog
        }

    @property
    def unclosed(self) -> list[str]:
        """Return the experiments that a shutdown of this server still waits for."""
        return self._supervision.unclosed

    @property
    def idle(self) -> bool:
        """True if the server shows no experiment, all its experiments are stopped, and no trial can still
        be running on a silent machine.
        """
        return not self._at_rest.viewed and all(
            held.status is E.STOPPED and not held.awaits_silent for held in self._supervision
        )
