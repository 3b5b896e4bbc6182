"""Tests with real processes: a keeper, its shims and trials, against a server that speaks the protocol."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.trial_keeper.harness import (
    PACKAGE,
    REPORT,
    FakeServer,
    Host,
    claim_of,
    ending,
    host,
    oldest_python,
    text,
    wait_for,
)
from trial_keeper.attempt import claim
from trial_keeper.machine import procs


def test_a_trial_starts_reports_and_ends(here: Host) -> None:
    directory = here.attempt("e-a-1", REPORT + "report aa; echo out; echo err >&2; env | sort > seen; exit 3")
    told = here.server.ended("e-a-1")
    assert told.frames == [b"aa\n"]
    assert told.started is not None and told.started["pid"] > 0
    assert ending(told) == ("exited", 3, None)
    assert text(directory / "stdout") == "out\n"
    assert text(directory / "stderr") == "err\n"
    assert text(directory / "parameter.cfg") == '{"parameter_id": 0, "parameters": {}}'
    names = sorted(path.name for path in (here.keeper / claim.FOLDER).iterdir())
    assert names == [f"e-a-1.{claim.NAME}", f"e-a-1.{claim.STREAM}"]
    seen = text(here.directory / "seen")
    assert f"NNI_SYS_DIR={directory}\n" in seen
    assert f"NNI_OUTPUT_DIR={directory}\n" in seen
    assert "NNIMGR_JOB_ID=e-a-1\n" in seen


def test_the_environment_is_changed_as_ordered(here: Host) -> None:
    here.attempt("e-a-1", "env > seen", environment={"HOME": None, "A": "x=y z"})
    here.server.ended("e-a-1")
    lines = text(here.directory / "seen").splitlines()
    assert "A=x=y z" in lines
    assert not any(line.startswith("HOME=") for line in lines)
    assert f"NNIMGR_BOOT_ID_FILE={here.boot}" in lines


def test_a_signal_ends_the_command(here: Host) -> None:
    here.attempt("e-a-1", "kill -SEGV $$")
    assert ending(here.server.ended("e-a-1")) == ("exited", None, signal.SIGSEGV)


def test_a_command_that_cannot_be_started_never_started(here: Host) -> None:
    here.attempt("e-a-1", ":", cwd="/no/such/folder")
    told = here.server.ended("e-a-1")
    assert ending(told) == ("never_started", None, None)
    assert told.final is not None and "/no/such/folder" in told.final["message"]


def test_a_stop_reaches_the_whole_tree(here: Host) -> None:
    command = (
        'setsid bash -c \'trap "echo bye > polite; exit" TERM; echo $$ > inner; '
        "while :; do sleep 0.02; done' & "
        "(setsid bash -c 'trap \"\" TERM; echo $$ > daemon; while :; do sleep 60; done' &) & "
        "trap '' TERM; echo $$ > main; while :; do sleep 60; done"
    )
    here.attempt("e-a-1", command)
    names = ("main", "inner", "daemon")
    wait_for(lambda: all(text(here.directory / name) for name in names), "the tree")
    here.server.command("stop", "e-a-1", {"grace": 0.3})
    told = here.server.ended("e-a-1")
    assert ending(told) == ("stopped", None, signal.SIGKILL)
    assert text(here.directory / "polite") == "bye\n"
    for name in names:
        assert procs.start_time(int(text(here.directory / name))) is None


def test_what_a_trial_leaves_behind_is_killed_before_its_end_is_told(here: Host) -> None:
    report = REPORT.replace("$NNI_SYS_DIR", "$0")
    inner = report + 'trap "" TERM HUP; echo $$ > daemon; while :; do report x; sleep 0.01; done'
    here.attempt("e-a-1", f"(setsid bash -c '{inner.replace(chr(39), chr(34))}' $NNI_SYS_DIR &); "
                 "until [ -s daemon ]; do sleep 0.01; done; exit 0")  # fmt: skip
    told = here.server.ended("e-a-1")
    assert ending(told) == ("exited", 0, None)
    assert procs.start_time(int(text(here.directory / "daemon"))) is None
    assert told.final is not None and told.final["n"] == len(told.frames)


def test_a_stop_before_the_start_is_seen_aborts_it(here: Host) -> None:
    here.kill()
    here.attempt("e-a-1", "touch ran; sleep 60")
    here.server.command("stop", "e-a-1", {"grace": 0.1})
    here.start()
    told = here.server.ended("e-a-1")
    assert told.final is not None
    assert told.final["reason"] in ("never_started", "stopped")
    assert (told.final["reason"] == "never_started") == (claim_of(here, "e-a-1").pid is None)


def test_a_bad_frame_ends_the_reading_and_kills_nothing(here: Host) -> None:
    here.attempt("e-a-1", REPORT + "report 1; printf 'garbage here' >> $NNI_SYS_DIR/.nni/metrics; report 2")
    told = here.server.ended("e-a-1")
    assert told.frames == [b"1\n"]
    assert ending(told) == ("exited", 0, None)
    assert told.notes == ["the metrics file holds no frame header at byte 10; nothing from there on is read"]


def test_results_that_nnis_sdk_has_printed_are_noted(here: Host) -> None:
    here.attempt("e-a-1", "echo; echo NNISDK_MEb\\'{}\\'")
    told = here.server.ended("e-a-1")
    assert told.notes == [
        'no results: NNI\'s SDK has printed them, because NNI_PLATFORM is not "local" any more'
    ]
    here.attempt("e-b-1", "echo hello")
    assert here.server.ended("e-b-1").notes == []


def test_many_metrics_arrive_complete_and_in_order(here: Host) -> None:
    script = (
        "import os\n"
        "fd = os.open(os.environ['NNI_SYS_DIR'] + '/.nni/metrics', os.O_WRONLY | os.O_APPEND)\n"
        "for i in range(20000):\n"
        "    payload = b'%d\\n' % i + b'x' * (i % 200)\n"
        "    os.write(fd, b'ME%06d' % len(payload) + payload)\n"
    )
    (here.directory / "many.py").write_text(script)
    for job in ("e-a-1", "e-b-1"):
        here.attempt(job, "python3 -S many.py")
    for job in ("e-a-1", "e-b-1"):
        told = here.server.ended(job)
        assert told.frames == [b"%d\n" % i + b"x" * (i % 200) for i in range(20000)]


def test_output_is_capped(here: Host) -> None:
    directory = here.attempt("e-a-1", "echo first; seq 1 20000; echo last", log_cap=8192)
    here.server.ended("e-a-1")
    content = text(directory / "stdout")
    assert len(content) <= 8192
    assert content.startswith("first\n1\n2\n") and content.endswith("20000\nlast\n")
    assert content.count("bytes are left out here") == 1


def test_a_log_that_takes_no_more_stops_nothing(tmp_path: Path) -> None:
    """The files of ``nni`` cannot be written at first, and the log cannot record that."""
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin" / "python3"
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    found = Host(tmp_path / "experiment")
    found.environ["PATH"] = f"{tmp_path}/bin:{found.environ['PATH']}"
    (found.keeper / "keeper.log").symlink_to("/dev/full")
    (found.keeper / "sdk").write_text("in the way")
    try:
        found.start()
        found.attempt("e-a-1", "true")
        wait_for(lambda: found.server.told("e-a-1").notes, "the note")
        (note,) = found.server.told("e-a-1").notes
        assert note.endswith("/keeper/sdk, which nni is imported from, cannot be written: Not a directory")
        (found.keeper / "sdk").unlink()
        assert ending(found.server.ended("e-a-1")) == ("exited", 0, None)
    finally:
        found.close()


def test_a_further_parameter_set_is_written(here: Host) -> None:
    directory = here.attempt("e-a-1", "until [ -e $NNI_SYS_DIR/parameter_1.cfg ]; do sleep 0.01; done")
    here.server.command("update", "e-a-1", {"index": 1, "parameter": '{"parameter_id": 1}'})
    assert ending(here.server.ended("e-a-1")) == ("exited", 0, None)
    assert text(directory / "parameter_1.cfg") == '{"parameter_id": 1}'


def test_an_attempt_the_server_does_not_know_is_killed(here: Host) -> None:
    here.attempt("e-a-1", "touch up; sleep 64")
    wait_for((here.directory / "up").exists, "the trial")
    with here.server.condition:
        here.server.kill.append("e-a-1")
        here.server.condition.notify_all()
    wait_for(lambda: not procs.marked("NNIMGR_JOB_ID", "e-a-1"), "the end of it")
    wait_for(lambda: claim_of(here, "e-a-1").exit, "the seal")


def test_a_keeper_leaves_when_it_is_told(here: Host) -> None:
    here.attempt("e-a-1", "true")
    here.server.ended("e-a-1")
    with here.server.condition:
        here.server.leave = True
        here.server.condition.notify_all()
    assert here.process is not None
    assert here.process.wait(10) == 0


def test_a_keeper_without_trials_and_server_leaves_by_itself(tmp_path: Path) -> None:
    found = Host(tmp_path / "experiment")
    found.environ["NNIMGR_KEEPER_IDLE_S"] = "0.2"
    (found.keeper / "manager.json").unlink()
    try:
        assert found.start().wait(10) == 0
        assert "leaves" in found.log()
    finally:
        found.close()


def test_a_new_address_ends_the_wait(tmp_path: Path) -> None:
    found = Host(tmp_path / "experiment")
    (found.keeper / "manager.json").unlink()
    try:
        found.start()
        wait_for(lambda: "sync failed" in found.log(), "a failed call")
        found.point()
        found.attempt("e-a-1", "true")
        found.server.ended("e-a-1")
    finally:
        found.close()


def test_a_new_epoch_of_the_server_gets_everything_again(here: Host) -> None:
    here.attempt("e-a-1", REPORT + "report 1; until [ -e go ]; do sleep 0.01; done; report 2")
    told = here.server.told("e-a-1")
    wait_for(lambda: told.frames, "a metric")
    with here.server.condition:
        here.server.m_epoch = 2
        told.frames.clear()  # not committed yet
    (here.directory / "go").touch()
    here.server.ended("e-a-1")
    assert told.frames == [b"1\n", b"2\n"]


def test_a_server_that_comes_back_elsewhere_is_found(here: Host) -> None:
    here.attempt("e-a-1", REPORT + "report 1; until [ -e go ]; do sleep 0.01; done; report 2")
    told = here.server.told("e-a-1")
    wait_for(lambda: told.frames, "a metric")
    old = here.server
    old.close()
    wait_for(lambda: "sync failed" in here.log(), "a failed call")
    (here.directory / "go").touch()
    here.server = FakeServer("instance-1")
    here.server.m_epoch = 2
    here.server.commands = old.commands
    here.server.told("e-a-1").frames.append(b"1\n")
    here.point()
    assert here.server.ended("e-a-1").frames == [b"1\n", b"2\n"]


BLIND = """
import sys
sys.path.insert(0, sys.argv.pop(1))
from trial_keeper.machine import watch
from trial_keeper.actions import watches

def missing(self):
    raise OSError(38, "Function not implemented")

watch.Watcher.__init__ = missing
watches.open_process = lambda pid: None
from trial_keeper.__main__ import main
main()
"""


def report_twice(found: Host) -> None:
    """Check that two metrics arrive, the second written after the first was reported."""
    found.attempt("e-a-1", REPORT + "report 1; until [ -e go ]; do sleep 0.01; done; report 2; sleep 60")
    told = found.server.told("e-a-1")
    wait_for(lambda: len(told.frames) == 1, "a metric")
    (found.directory / "go").touch()
    wait_for(lambda: len(told.frames) == 2, "another metric")


def test_without_inotify_and_pidfd_it_looks_and_says_so(tmp_path: Path) -> None:
    script = tmp_path / "blind.py"
    script.write_text(BLIND)
    found = Host(tmp_path / "experiment", package=str(script))
    try:
        found.start(str(PACKAGE.parent))
        report_twice(found)
        assert "without inotify" in found.server.calls[-1]["status"]
        shim = claim_of(found, "e-a-1").pid
        assert shim is not None
        os.kill(shim, signal.SIGKILL)
        assert ending(found.server.ended("e-a-1")) == ("exited", None, None)
    finally:
        found.close()


OVERFLOWN = """
import os
import sys
sys.path.insert(0, sys.argv.pop(1))
from trial_keeper.machine import watch

def changes(self):
    os.read(self.fd, 65536)
    return [watch.Changed(watch.LOST, "")]

watch.Watcher.changes = changes
from trial_keeper.__main__ import main
main()
"""


def test_dropped_changes_are_looked_for_everywhere(tmp_path: Path) -> None:
    script = tmp_path / "overflown.py"
    script.write_text(OVERFLOWN)
    found = Host(tmp_path / "experiment", package=str(script))
    try:
        found.start(str(PACKAGE.parent))
        report_twice(found)
    finally:
        found.close()


@pytest.mark.skipif(oldest_python() is None, reason="no Python 3.8 here")
def test_the_oldest_python(tmp_path: Path) -> None:
    with host(tmp_path, python=oldest_python()) as here:
        here.attempt("e-a-1", REPORT + "report 1; sleep 60")
        told = here.server.told("e-a-1")
        wait_for(lambda: told.frames, "a metric")
        here.kill()
        here.start()
        here.server.command("stop", "e-a-1", {"grace": 5.0})
        assert ending(here.server.ended("e-a-1")) == ("stopped", None, signal.SIGTERM)
