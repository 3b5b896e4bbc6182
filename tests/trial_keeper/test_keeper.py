"""Real processes: a keeper, its shims and trials, against a server that speaks the protocol."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.trial_keeper.harness import PACKAGE, FakeServer, Host, host, oldest_python, wait_for
from trial_keeper import claim, journal, procs

REPORT = "report() { printf 'ME%06d%s\\n' $((${#1} + 1)) \"$1\" >> $NNI_SYS_DIR/.nni/metrics; }; "


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Host]:
    with host(tmp_path) as found:
        yield found


def ending(told: object) -> tuple[object, object, object]:
    final = told.final  # type: ignore[attr-defined]
    return final["reason"], final["code"], final["signal"]


def text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


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


def claim_of(here: Host, job: str) -> claim.Claim:
    found = claim.read(claim.prefix(str(here.keeper), job))
    assert found is not None
    return found


def test_a_killed_keeper_adopts_its_trials(here: Host) -> None:
    directory = here.attempt(
        "e-a-1", REPORT + "echo start >> starts; for i in 1 2 3; do report $i; done; "
        "until [ -e go ]; do sleep 0.01; done; report 4"
    )  # fmt: skip
    told = here.server.told("e-a-1")
    wait_for(lambda: len(told.frames) == 3, "three metrics")
    here.kill()
    here.start()
    wait_for(lambda: here.server.calls[-1]["k_epoch"] == 2, "the new keeper")
    (here.directory / "go").touch()
    here.server.ended("e-a-1")
    assert told.frames == [b"1\n", b"2\n", b"3\n", b"4\n"]
    assert text(here.directory / "starts") == "start\n"
    assert directory.exists()


def test_a_trial_that_ends_without_a_keeper_is_told_by_the_next(here: Host) -> None:
    here.attempt("e-a-1", REPORT + "report 1; until [ -e go ]; do sleep 0.01; done; report 2; exit 7")
    told = here.server.told("e-a-1")
    wait_for(lambda: told.frames, "a metric")
    here.kill()
    (here.directory / "go").touch()
    wait_for(lambda: claim_of(here, "e-a-1").exit, "the end")
    here.start()
    assert ending(here.server.ended("e-a-1")) == ("exited", 7, None)
    assert told.frames == [b"1\n", b"2\n"]


def test_a_stop_is_repeated_by_the_next_keeper(here: Host) -> None:
    here.attempt("e-a-1", "trap '' TERM; touch up; while :; do sleep 0.05; done")
    wait_for((here.directory / "up").exists, "the trial")
    wait_for(lambda: here.server.acked_cmd == 1, "the acknowledgement")
    here.server.command("stop", "e-a-1", {"grace": 1.0})
    wait_for(lambda: b'"stop"' in (here.keeper / "journal").read_bytes(), "the record")
    here.kill()
    here.start()
    assert ending(here.server.ended("e-a-1")) == ("stopped", None, signal.SIGKILL)


def test_a_stop_reaches_a_trial_whose_grace_cannot_be_written(here: Host) -> None:
    here.attempt("e-a-1", "touch up; while :; do sleep 0.05; done")
    wait_for((here.directory / "up").exists, "the trial")
    wait_for(lambda: here.server.acked_cmd == 1, "the acknowledgement")
    Path(claim.prefix(str(here.keeper), "e-a-1") + claim.STOP).mkdir()  # nothing can be renamed to this name
    here.server.command("stop", "e-a-1", {"grace": 0.1})
    told = here.server.ended("e-a-1")
    assert ending(told) == ("stopped", None, signal.SIGTERM)
    assert any("could not be handed over" in note for note in told.notes)


def test_a_keeper_whose_place_is_taken_stops_its_trials_and_leaves(here: Host) -> None:
    here.attempt("e-a-1", "trap 'echo bye > polite; exit' TERM; touch up; while :; do sleep 0.02; done")
    wait_for((here.directory / "up").exists, "the trial")
    with here.server.condition:
        here.server.refused = "instance"
        here.server.condition.notify_all()
    assert here.process is not None
    assert here.process.wait(20) == 0
    wait_for(lambda: not here.processes(), "the end of all processes")
    assert text(here.directory / "polite") == "bye\n"
    assert here.log().count("sync failed") == 1


def test_a_keeper_in_a_new_directory_first_ends_what_an_old_one_left(here: Host) -> None:
    here.attempt("e-a-1", "trap '' TERM; touch up; (setsid env -i sleep 66 &) ; while :; do sleep 0.05; done")
    wait_for((here.directory / "up").exists, "the trial")
    old = here.process
    assert old is not None
    shim = claim_of(here, "e-a-1").pid
    here.server.close()
    old.send_signal(signal.SIGSTOP)  # else it would see for itself that its files are gone
    shutil.rmtree(here.keeper)
    here.keeper.mkdir()
    here.server = FakeServer("")  # it takes any instance for its own
    seen: dict[str, list[int]] = {}  # what ran when an instance first called
    here.server.heard = lambda header: seen.setdefault(
        header["instance"], procs.marked("NNIMGR_JOB_ID", "e-a-1")
    )
    here.point()
    here.start()
    instance = wait_for(lambda: text(here.keeper / "instance"), "the new instance")
    wait_for(lambda: instance in seen, "the new keeper")
    assert seen[instance] == []
    assert shim is not None and procs.start_time(shim) is None
    assert old.wait(10) == -signal.SIGKILL
    assert "killed what an earlier keeper had left" in here.log()
    assert all(procs.strings(pid, "cmdline")[:2] != ["sleep", "66"] for pid in procs.all_pids())
    here.server.commands.clear()
    here.attempt("e-b-1", "true")
    assert ending(here.server.ended("e-b-1")) == ("exited", 0, None)


def test_a_keeper_in_a_new_directory_leaves_another_experiment_alone(here: Host, tmp_path: Path) -> None:
    here.attempt("e-a-1", "until [ -e go ]; do sleep 0.01; done")
    wait_for(lambda: here.server.told("e-a-1").started, "the trial")
    other = Host(tmp_path / "other")
    (other.keeper / "instance").unlink()
    other.server.instance = ""
    try:
        other.start()
        wait_for(lambda: other.server.calls, "its first call")
        (here.directory / "go").touch()
        assert ending(here.server.ended("e-a-1")) == ("exited", 0, None)
    finally:
        other.close()


def test_a_second_keeper_leaves_at_once(here: Host) -> None:
    wait_for(lambda: here.server.calls, "the keeper")
    first = here.process
    assert here.start().wait(10) == 0
    here.process = first


def test_a_killed_shim_is_noticed_and_swept(here: Host) -> None:
    here.attempt("e-a-1", REPORT + "report 1; (setsid sleep 61 &) & echo $$ > main; sleep 62")
    told = here.server.told("e-a-1")
    wait_for(lambda: told.frames and text(here.directory / "main"), "the trial")
    elsewhere = {"NNIMGR_JOB_ID": "e-a-1", "NNI_SYS_DIR": "/elsewhere/trials/a"}
    with subprocess.Popen(["sleep", "64"], env={**os.environ, **elsewhere}) as namesake:
        shim = claim_of(here, "e-a-1").pid
        assert shim is not None
        os.kill(shim, signal.SIGKILL)
        here.server.ended("e-a-1")
        assert ending(told) == ("exited", None, None)
        assert told.final is not None and "killed" in told.final["message"]
        assert procs.start_time(int(text(here.directory / "main"))) is None
        assert procs.marked("NNIMGR_JOB_ID", "e-a-1") == [namesake.pid]
        namesake.kill()


def test_another_boot_is_a_lost_host(here: Host) -> None:
    here.attempt("e-a-1", REPORT + "report 1; sleep 63")
    told = here.server.told("e-a-1")
    wait_for(lambda: told.frames and here.server.acked_cmd == 1, "the trial")
    here.kill()
    procs.signal_all(here.processes(), signal.SIGKILL)
    here.boot.write_text("boot-2\n")
    here.attempt("e-b-1", "touch ran")  # placed on the boot that is over
    here.start()
    here.server.ended("e-a-1")
    assert told.final is not None and (told.final["reason"], told.final["n"]) == ("host_lost", 1)
    other = here.server.ended("e-b-1")
    assert other.final is not None and other.final["reason"] == "host_lost"
    assert not (here.directory / "ran").exists()


def test_a_torn_journal_is_cut(here: Host) -> None:
    here.attempt("e-a-1", "until [ -e go ]; do sleep 0.01; done")
    wait_for(lambda: here.server.acked_cmd == 1, "the acknowledgement")
    here.kill()
    path = here.keeper / "journal"
    path.write_bytes(path.read_bytes() + journal.frame({"k": "nop", "seq": 99})[:-3])
    here.start()
    (here.directory / "go").touch()
    assert ending(here.server.ended("e-a-1")) == ("exited", 0, None)


def test_a_bad_frame_ends_the_reading_and_kills_nothing(here: Host) -> None:
    here.attempt("e-a-1", REPORT + "report 1; printf 'garbage here' >> $NNI_SYS_DIR/.nni/metrics; report 2")
    told = here.server.ended("e-a-1")
    assert told.frames == [b"1\n"]
    assert ending(told) == ("exited", 0, None)
    assert told.notes == ["the metrics file holds no frame header at byte 10; nothing from there on is read"]


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
    """The files of ``nni`` cannot be laid down at first, and even that cannot be written to the log."""
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
        told.frames.clear()  # it had not been committed
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
from trial_keeper import watch

def missing(self):
    raise OSError(38, "Function not implemented")

watch.Watcher.__init__ = missing
watch.open_process = lambda pid: None
from trial_keeper.__main__ import main
main()
"""


def report_twice(found: Host) -> None:
    """Two metrics arrive, the second written after the first was told."""
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
from trial_keeper import watch

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


def test_a_killed_spawner_is_replaced(here: Host) -> None:
    wait_for(lambda: here.server.calls, "the keeper")
    assert here.process is not None
    os.kill(procs.descendants(here.process.pid)[0], signal.SIGKILL)
    here.attempt("e-a-1", "true")
    assert ending(here.server.ended("e-a-1")) == ("exited", 0, None)


@pytest.mark.kill
def test_kills_at_random_instants_lose_and_double_nothing(here: Host) -> None:
    chance = random.Random(7)
    jobs = [f"e-{i:02}-1" for i in range(40)]
    for job in jobs:
        pause = chance.uniform(0.01, 0.1)
        loop = f"for i in 1 2 3 4 5; do report $i; sleep {pause:.3f}; done"
        here.attempt(job, f"{REPORT} echo {job} >> starts; {loop}")
    for _ in range(20):
        time.sleep(chance.uniform(0, 0.2))  # the instant of the kill
        here.kill()
        here.start()
    for job in jobs:
        told = here.server.ended(job)
        assert told.frames == [b"1\n", b"2\n", b"3\n", b"4\n", b"5\n"]
        assert ending(told) == ("exited", 0, None)
    assert sorted(text(here.directory / "starts").split()) == jobs


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
