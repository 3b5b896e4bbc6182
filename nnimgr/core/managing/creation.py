"""Checks the configuration of an experiment that is about to be created, and builds the first facts of its
log.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from nnimgr.config import ExperimentConfig, check_config, initial_sets, read_canonical
from nnimgr.config.secrets import hide_secrets
from nnimgr.core.managing.experiments import ExperimentConflict, NewExperiment
from nnimgr.core.managing.folder import Surroundings
from nnimgr.core.running.new_trials import initial_trials
from nnimgr.index import IndexEntry, seed_of
from nnimgr.rules import facts as f
from nnimgr.store.reader import ExperimentReader
from nnimgr.traits import traits_of

__all__ = ["Draft"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """Checked configuration of an experiment that is about to be created. Passwords are only in
    ``around``, the environment to store.
    """

    config: ExperimentConfig
    canonical: Mapping[str, Any]  # without the search space
    search_space: Mapping[str, Any]
    around: Surroundings

    @classmethod
    async def of(cls, new: NewExperiment) -> Draft:
        """Return a draft from the configuration that a client sent. Raise ConfigError if the configuration
        is not valid.
        """
        written = read_canonical({**new.config, "searchSpace": dict(new.search_space)})
        config, secrets = hide_secrets(written)
        around = replace(new.surroundings(), secrets=secrets)
        for warning in await asyncio.to_thread(check_config, config, interpreter=around.interpreter):
            logger.warning("experiment %s: %s", new.id or "(new)", warning)
        canonical = config.canonical()
        space = canonical.pop("searchSpace")
        return cls(config=config, canonical=canonical, search_space=space, around=around)

    def directory(self, experiment_id: str) -> Path:
        """Return the path of the folder for the experiment if it gets this id."""
        return self.config.experiment_working_directory / experiment_id

    async def is_created(self, experiment_id: str, reader: ExperimentReader) -> bool:
        """Return whether the experiment in the reader's database was created from this draft.

        Return False if the database has no facts yet. Raise ExperimentConflict if the experiment was created
        from another draft.
        """
        try:
            first = (await asyncio.to_thread(reader.facts, limit=1))[0].fact
        except (FileNotFoundError, IndexError):
            return False
        if (
            isinstance(first, f.ExperimentCreated)
            and first.config == self.canonical
            and first.search_space == self.search_space
        ):
            return True
        raise ExperimentConflict(f"experiment {experiment_id} exists with another configuration")

    async def opening(self, experiment_id: str) -> list[f.Fact]:
        """Return the first facts of the experiment's log: its creation, and its initial trials."""
        created = f.ExperimentCreated(
            experiment_id=experiment_id,
            config=self.canonical,
            search_space=self.search_space,
            limits=self.config.limits(),
            traits=traits_of(self.canonical),
        )
        sets = await asyncio.to_thread(initial_sets, self.config, seed_of(experiment_id))
        return [created, *initial_trials(experiment_id, sets)]

    def entry(
        self, experiment_id: str, *, port: int, prefix_url: str | None, started_at: datetime
    ) -> IndexEntry:
        """Build the experiment's entry in the index file, for a server at this port."""
        return IndexEntry(
            id=experiment_id,
            port=port,
            started_at=started_at,
            ended_at=None,
            status=f.ExperimentStatus.INITIALIZED.value,
            platform=self.config.platform,
            name=self.config.experiment_name or "",
            log_dir=str(self.config.experiment_working_directory),
            pid=os.getpid(),
            prefix_url=prefix_url,
        )
