"""Another tuner while an experiment runs, and everything killed behind it."""

from __future__ import annotations

import asyncio
import json
import signal
import sqlite3
import zlib
from pathlib import Path
from typing import Any

from nnimgr.dispatcher import messages as m
from tests.dispatcher.hosting import Hosted, start_line
from tests.e2e.scene import Scene, eventually
from tests.server.harness import nothing_left, serving

TRIAL = """
import os, time
import nni
x = nni.get_next_parameter()["x"]
while nni.get_sequence_id() >= 12 and not os.path.exists("go"):
    time.sleep(0.01)
nni.report_final_result((x - 0.7) ** 2)
"""
ARGUMENTS = {"optimize_mode": "minimize", "tpe_args": {"n_startup_jobs": 4}}


def ended(found: Scene) -> int:
    return sum(trial["status"] == "SUCCEEDED" for trial in found.trials())


def given_again(
    found: Scene, facts: list[tuple[int, dict[str, Any]]], since: int, directory: Path
) -> list[str]:
    """What a tuner that is built from the experiment's past gives in place of each set since then."""

    async def give() -> list[str]:
        again = []
        for _, fact in facts:
            start = start_line(
                name="TPE",
                class_args=ARGUMENTS,
                search_space=found.profile()["searchSpace"],
                experiment_id="exp",
                database=str(found.folder / "db" / "nnimgr.sqlite"),
                rebuild_to=fact["fed_to"],
                since=since,
                seed=zlib.crc32(b"exp"),
            )
            hosted = Hosted(start, directory)
            await hosted.child.start()
            hosted.send(m.Ask(parameter_ids=(fact["parameter_id"],), fed_to=fact["fed_to"]))
            again += await hosted.suggestions(1)
            await hosted.child.close()
        return again

    return asyncio.run(give())


def test_a_swap_outlives_every_process(tmp_path: Path) -> None:
    (tmp_path / "tuner.yml").write_text(json.dumps({"tuner": {"name": "TPE", "classArgs": ARGUMENTS}}))
    with nothing_left(tmp_path):
        with serving(tmp_path) as server:
            found = Scene(server, tmp_path)
            minimised = {"name": "Random", "classArgs": {"optimize_mode": "minimize"}}
            found.create(  # one set at a time, so that each was asked for when all before were recorded
                found.script(TRIAL), tuner=minimised, maxTrialNumber=24, suggestionsAhead=0
            )
            eventually(lambda: ended(found) == 12, "12 trials by Random")
            said = found.nnictl("update", "tuner", "exp", "--filename", str(tmp_path / "tuner.yml"))
            assert (
                "The tuner is TPE instead of Random from now on. The new tuner gets the whole history: 12"
                in said
            )
            assert found.profile()["config"]["tuner"] == {"name": "TPE", "classArgs": ARGUMENTS}
            (tmp_path / "go").touch()
            eventually(lambda: ended(found) >= 16, "trials by TPE")
            server.end(signal.SIGKILL)
        with serving(tmp_path, port=server.port) as again:
            found = Scene(again, tmp_path)
            found.done()
            database = sqlite3.connect(found.folder / "db" / "nnimgr.sqlite")
            rows = database.execute("SELECT number, kind, payload FROM facts ORDER BY number").fetchall()
            database.close()
            since = next(number for number, kind, _ in rows if kind == "ConfigChanged")
            facts = [(number, json.loads(text)) for number, kind, text in rows if kind == "Suggested"]
            own = [(number, fact) for number, fact in facts if number > since]
            assert len(facts) == 24 and len(own) >= 8
            assert all(fact["fed_to"] >= since for _, fact in own)
            assert [fact["parameters"] for _, fact in own] == given_again(found, own, since, tmp_path)
            sentences = [item["sentence"] for item in found.get("/feed")["entries"]]
            assert any("the tuner is now TPE, which got all earlier results" in each for each in sentences)
