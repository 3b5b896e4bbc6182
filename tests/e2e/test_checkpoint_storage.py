"""Trials whose checkpoints are put into a storage, and which survive the loss of the server's files."""

from __future__ import annotations

import contextlib
import json
import shutil
from pathlib import Path
from typing import Any

from tests.e2e.scene import eventually
from tests.e2e.test_checkpoints import WAITING, Saving, check_curve, saving


def checkpoints(victim: Saving, trial_id: str) -> list[dict[str, Any]]:
    listed = victim.nnictl("trial", "checkpoint", "ls", victim.experiment, "-T", trial_id, "--json")
    return list(json.loads(listed)["checkpoints"])


def facts(victim: Saving, kind: str) -> list[dict[str, Any]]:
    with contextlib.closing(victim._database()) as database:
        rows = database.execute("SELECT payload FROM facts WHERE kind = ?", (kind,)).fetchall()
    return [json.loads(payload) for (payload,) in rows]


def test_a_trial_continues_from_the_storage_after_the_files_were_lost(tmp_path: Path) -> None:
    with saving(6, program=WAITING, storage=f"file://{tmp_path}") as victim:
        victim.wait_for_trials()
        trial_id = str(victim.trials()[0]["id"])
        eventually(lambda: facts(victim, "CheckpointStored"), "a stored checkpoint")
        victim.nnictl("trial", "pause", victim.experiment, "-T", trial_id)
        eventually(
            lambda: checkpoints(victim, trial_id)[-1]["stored"], "the storage of its newest checkpoint"
        )
        victim.kill("all")
        shutil.rmtree(victim.folder / "checkpoints")
        shutil.rmtree(victim.folder / "trials" / trial_id)
        victim.serve()
        victim.nnictl("trial", "resume", victim.experiment, "-T", trial_id)
        while not victim.ended():
            victim.act("save")
        victim.finish(limit_s=90)
        with contextlib.closing(victim._database()) as database:
            attempt, parameters, status = database.execute(
                "SELECT attempt, parameters, status FROM trials WHERE trial_id = ?", (trial_id,)
            ).fetchone()
            check_curve(database, trial_id, attempt, parameters)
        assert (attempt, status) == (2, "SUCCEEDED")
        (due,) = [fact for fact in facts(victim, "AttemptDue") if fact["trial_id"] == trial_id]
        assert due["origin"] is not None and facts(victim, "CheckpointLost") == []
        storage = tmp_path / victim.experiment
        eventually(lambda: not list(storage.glob("*/*")), "the removal of copies that no trial needs")
