"""A keeper's journal that was torn or damaged: said, nothing run twice, nothing acknowledged lost."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

from tests.e2e.scene import Scene, eventually, scene
from tests.processes import holders
from trial_keeper.actions import journal

# The first two end by themselves, the others when they are told to.
TRIAL = """
import os, sys, time, nni
nni.get_next_parameter()
here = os.path.dirname(os.path.abspath(sys.argv[0]))
with open(f"{here}/starts", "a") as file:
    file.write(os.environ["NNIMGR_JOB_ID"] + "\\n")
nni.report_intermediate_result(1)
nni.report_intermediate_result(2)
while nni.get_sequence_id() > 1 and not os.path.exists(f"{here}/go"):
    time.sleep(0.01)
nni.report_final_result(3)
"""


def begin(here: Scene) -> list[str]:
    """Two trials that have ended, and two that run, whose ids are returned; all metrics are recorded."""
    here.create(here.script(TRIAL), trialConcurrency=2, maxTrialNumber=4)

    def running() -> list[str]:
        if here.profile()["counts"].get("SUCCEEDED") != 2:  # asked first: one may end in between
            return []
        found = [t["id"] for t in here.trials() if t["status"] == "RUNNING" and t["intermediates"] == 2]
        return found if len(found) == 2 else []

    return eventually(running, "two trials that run")


def kill_keeper(here: Scene, change: Callable[[Path], object]) -> None:
    """Kill the keeper; the next one finds a changed journal."""
    (pid,) = holders(here.folder / "keeper" / "lock")
    os.kill(pid, signal.SIGSTOP)
    change(here.folder / "keeper" / "journal")
    os.kill(pid, signal.SIGKILL)


def results(here: Scene) -> dict[str, list[tuple[int, float]]]:
    """Attempt and value of all metrics, by trial."""
    (here.directory / "go").touch()
    trials = here.done()
    assert {trial["status"] for trial in trials} == {"SUCCEEDED"}
    return {t["id"]: [(m["attempt"], m["value"]) for m in here.metrics(t["id"])] for t in trials}


def starts(here: Scene) -> list[str]:
    return (here.directory / "starts").read_text().split()


def test_a_torn_journal_costs_nothing(tmp_path: Path) -> None:
    with scene(tmp_path) as here:
        begin(here)

        def tear(path: Path) -> None:
            with open(path, "ab") as file:
                file.write(journal.frame({"k": "nop", "seq": 1000})[:-3])

        kill_keeper(here, tear)
        found = results(here)
        assert list(found.values()) == [[(1, 1.0), (1, 2.0), (1, 3.0)]] * 4
        assert sorted(starts(here)) == sorted(f"exp-{trial_id}-1" for trial_id in found)
        assert here.profile()["notices"] == []


def test_a_flipped_bit_in_the_journal_ends_what_nobody_knows_any_more(tmp_path: Path) -> None:
    """What had ended stays; what ran is ended and run again, as new attempts."""
    with scene(tmp_path) as here:
        running = begin(here)

        def flip(path: Path) -> None:
            content = bytearray(path.read_bytes())
            content[len(content) // 2] ^= 0x10
            path.write_bytes(content)

        kill_keeper(here, flip)
        said = here.saying("damaged")
        aside = next((here.folder / "keeper").glob("journal.damaged-*"))
        assert "the keeper's journal is damaged" in said and aside.name in said
        assert "the keeper's journal is damaged" in here.server.said
        eventually(lambda: len(starts(here)) == 6, "the new attempts")
        for trial_id in running:
            assert here.processes(trial_id) == []
        found = results(here)
        for trial_id, metrics in found.items():
            again = [(1, 1.0), (1, 2.0), (2, 1.0), (2, 2.0), (2, 3.0)]
            assert metrics == (again if trial_id in running else [(1, 1.0), (1, 2.0), (1, 3.0)])
        once = [f"exp-{trial_id}-1" for trial_id in found] + [f"exp-{trial_id}-2" for trial_id in running]
        assert sorted(starts(here)) == sorted(once)
