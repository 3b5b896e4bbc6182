"""Trials that misbehave: what becomes of their processes, and what their user is told."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest

from tests.e2e.disks import disk
from tests.e2e.scene import eventually, scene

# A daemon by the book: two forks, a session of its own, nothing of its parents kept, deaf to SIGTERM.
DAEMON = """
import os, signal, sys, time
def daemonise():
    if os.fork():
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    os.chdir("/")
    for fd in range(3):
        os.close(fd)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with open(f"{here}/daemon.new", "w") as file:
        file.write(str(os.getpid()))
    os.rename(f"{here}/daemon.new", f"{here}/daemon")
    time.sleep(1000)
here = os.path.dirname(os.path.abspath(sys.argv[0]))
daemonise()
while not os.path.exists(f"{here}/daemon"):
    time.sleep(0.01)
"""


def test_a_trial_that_daemonises_twice_and_exits_leaves_nothing(tmp_path: Path) -> None:
    with scene(tmp_path) as here:
        here.create(here.script(DAEMON))
        (trial,) = here.done()
        assert (trial["status"], trial["reason"]) == (
            "SUCCEEDED",
            "no result: the trial never called nni.report_final_result()",
        )
        assert not Path(f"/proc/{(tmp_path / 'daemon').read_text()}").exists()
        assert here.processes(trial["id"]) == []


def test_a_trial_that_forks_and_exits_ends_with_its_own_code(tmp_path: Path) -> None:
    with scene(tmp_path) as here:
        here.create("(sleep 1000; exit 4) & sleep 1000 & exit 3")
        (trial,) = here.done()
        assert (trial["status"], trial["reason"]) == ("FAILED", "exited with code 3")
        assert here.processes(trial["id"]) == []


def test_a_stop_ends_what_ignores_sigterm_and_what_has_daemonised(tmp_path: Path) -> None:
    deaf = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    stubborn = f"{deaf}{DAEMON}while True: time.sleep(1000)\n"
    with scene(tmp_path) as here:
        here.create(here.script(stubborn))
        trial = here.running()
        eventually((tmp_path / "daemon").exists, "the daemon")
        here.stop_trial(trial["id"])
        (trial,) = here.done()
        assert (trial["status"], trial["reason"]) == ("USER_CANCELED", "a user stopped it")
        assert here.get(f"/trials/{trial['id']}")["jobs"][0]["signal"] == signal.SIGKILL
        assert here.processes(trial["id"]) == []


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("no-such-command --lr 1", "command not found: no-such-command (exit code 127)"),
        ("/etc", "command cannot be executed: /etc (exit code 126)"),
    ],
)
def test_a_command_that_cannot_be_run_is_named(tmp_path: Path, command: str, said: str) -> None:
    with scene(tmp_path) as here:
        here.create(command)
        (trial,) = here.done()
        assert (trial["status"], trial["reason"]) == ("FAILED", said)
        assert here.get(f"/trials/{trial['id']}")["jobs"][0]["exitCode"] in (126, 127)
        assert command.split()[0] in here.log(trial["id"], "stderr").decode()


def test_a_trial_that_fills_its_disk_is_told_so_and_harms_only_itself(tmp_path: Path) -> None:
    script = """
import os, nni
nni.get_next_parameter()
nni.report_intermediate_result(1)
with open(os.path.join(os.environ["NNI_OUTPUT_DIR"], "model"), "wb", buffering=0) as file:
    try:
        while file.write(bytes(4096)) == 4096:
            pass
    except OSError as error:
        pass
    os.write(1, b"x" * 300_000)  # more than the pipe and one reading hold: a part is lost for sure
    try:
        for _ in range(100):
            nni.report_intermediate_result("y" * 100)
        raise SystemExit("a full disk took it all")
    except OSError as error:
        os.ftruncate(file.fileno(), 0)
        nni.report_final_result(str(error))
"""
    with disk(tmp_path / "work" / "exp" / "trials", size="1m"), scene(tmp_path) as here:
        here.create(here.script(script))
        (trial,) = here.done()
        texts = [metric["text"] for metric in here.metrics(trial["id"])]
        assert texts[0] == "1" and set(texts[1:-1]) <= {'"%s"' % ("y" * 100)}
        assert texts[-1].startswith('"[Errno 28] No space left on device')
        assert trial["status"] == "SUCCEEDED"
        dropped = re.fullmatch(r"(\d+) bytes of output could not be written", trial["note"])
        assert dropped is not None
        assert os.path.getsize(here.attempt(trial["id"]) / "stdout") == 300_000 - int(dropped[1])
