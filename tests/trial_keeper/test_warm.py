"""Attempts that are forked from a process with preloaded modules, with real processes."""

from __future__ import annotations

import json
import os
import signal
import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.trial_keeper.harness import Host, Told, claim_of, ending, oldest_python, text, wait_for
from tests.trial_keeper.harness import host as make_host
from trial_keeper import zipapp
from trial_keeper.machine import procs

MODULES = {
    "heavy": "print('imported', flush=True)\nTABLE = {'ready': True}\n",
    "slow": """
        import os, time
        while not os.path.exists(os.environ["GATE"]):
            time.sleep(0.005)
    """,
    "threaded": """
        import threading, time
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
    """,
}


def order(here: Host, job: str, code: str, *modules: str, **changes: Any) -> Path:
    """Order an attempt that runs the function ``train`` with preloaded modules; return its directory."""
    libraries = here.directory / "libraries"
    libraries.mkdir(exist_ok=True)
    for name, content in MODULES.items():
        (libraries / f"{name}.py").write_text(textwrap.dedent(content))
    (here.directory / f"{job.replace('-', '_')}.py").write_text(textwrap.dedent(code))
    target = f"{job.replace('-', '_')}.py:train"
    environment = {
        "NNI_PLATFORM": "local",
        "NNI_TRIAL_JOB_ID": job,
        "PYTHONPATH": str(libraries),
        "GATE": str(here.directory / "gate"),
        **changes.pop("environment", {}),
    }
    return here.attempt(
        job,
        f"{here.python} -m nni.run {target}",
        environment=environment,
        preload={"modules": list(modules or ("heavy",)), "target": target},
        **changes,
    )


def results(told: Told) -> list[Any]:
    return [json.loads(json.loads(frame)["value"]) for frame in told.frames]


PLAIN = """
    import os, sys

    LOADED = "heavy" in sys.modules

    def train(parameters):
        import atexit
        atexit.register(lambda: print("at exit"))
        print(LOADED, __name__, os.getcwd(), os.environ["NNI_TRIAL_JOB_ID"], os.environ.get("GONE"))
        print("NNIMGR_WARM" in os.environ, sys.argv, len(os.listdir("/proc/self/fd")))
        print("oops", file=sys.stderr)
        return 0.5
"""


def test_a_function_runs_as_in_a_process_of_its_own(here: Host) -> None:
    directory = order(here, "e-a-1", PLAIN, environment={"GONE": None})
    told = here.server.ended("e-a-1")
    assert ending(told) == ("exited", 0, None), text(directory / "stderr")
    assert results(told) == [0.5]
    first, second, last = text(directory / "stdout").splitlines()
    assert first == f"True e_a_1 {here.directory} e-a-1 None"
    assert second == "False ['e_a_1.py'] 4"
    assert last == "at exit"
    assert text(directory / "stderr") == "oops\n"


def test_modules_are_imported_once(here: Host) -> None:
    for number in range(3):
        order(here, f"e-a-{number}", PLAIN)
        here.server.ended(f"e-a-{number}")
    assert here.log().count("imported") == 1


def test_two_trials_draw_different_random_numbers(here: Host) -> None:
    code = """
        import random
        def train(parameters):
            return random.random()
    """
    drawn = []
    for number in range(2):
        order(here, f"e-a-{number}", code, "random")
        drawn += results(here.server.ended(f"e-a-{number}"))
    assert drawn[0] != drawn[1]


@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        ("raise ValueError('bad')", 1, "ValueError: bad"),
        ("sys.exit(7)", 7, ""),
        ("sys.exit('too bad')", 1, "too bad"),
        ("raise KeyboardInterrupt", 1, "KeyboardInterrupt"),
        ("os._exit(9)", 9, ""),
    ],
)
def test_how_a_function_ends(here: Host, line: str, code: int, message: str) -> None:
    order(here, "e-a-1", f"import os, sys\ndef train(parameters):\n    {line}\n")
    told = here.server.ended("e-a-1")
    assert ending(told) == ("exited", code, None)
    assert told.final is not None and (told.final["message"] or "") == message


def test_a_signal_ends_it(here: Host) -> None:
    order(here, "e-a-1", "import os\ndef train(parameters):\n    os.kill(os.getpid(), 11)\n")
    assert ending(here.server.ended("e-a-1")) == ("exited", None, signal.SIGSEGV)


# A trial with a forked child in a session of its own, which ignores SIGTERM.
TREE = """
    import os, signal, time

    def train(parameters):
        if os.fork() == 0:
            os.setsid()
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            note("child")
        note("main")

    def note(name):
        with open(f"{name}.new", "w") as file:
            file.write(str(os.getpid()))
        os.rename(f"{name}.new", name)
        time.sleep(600)
"""


def started_tree(here: Host) -> list[int]:
    order(here, "e-a-1", TREE)
    wait_for(lambda: all(text(here.directory / name) for name in ("main", "child")), "the tree")
    return [int(text(here.directory / name)) for name in ("main", "child")]


def test_a_stop_ends_the_whole_tree(here: Host) -> None:
    pids = started_tree(here)
    here.server.command("stop", "e-a-1", {"grace": 0.3})
    assert ending(here.server.ended("e-a-1")) == ("stopped", None, signal.SIGTERM)
    assert [procs.start_time(pid) for pid in pids] == [None, None]


def test_nothing_survives_a_killed_shim(here: Host) -> None:
    pids = started_tree(here)
    shim = claim_of(here, "e-a-1").pid
    assert shim is not None
    os.kill(shim, signal.SIGKILL)
    assert ending(here.server.ended("e-a-1")) == ("exited", None, None)
    wait_for(lambda: [procs.start_time(pid) for pid in pids] == [None, None], "the end of the tree")


def test_modules_that_cannot_be_imported_fail_the_trial(here: Host) -> None:
    order(here, "e-a-1", PLAIN, "heavy", "no_such_module")
    told = here.server.ended("e-a-1")
    assert ending(told) == ("exited", 1, None)
    said = "preload: cannot import no_such_module: ModuleNotFoundError: No module named 'no_such_module'"
    assert told.final is not None and told.final["message"] == said


def test_a_module_that_starts_a_thread_is_refused(here: Host) -> None:
    order(here, "e-a-1", PLAIN, "threaded")
    told = here.server.ended("e-a-1")
    said = "preload: the import of threaded starts a thread, which the trials would not have"
    assert told.final is not None and told.final["message"] == said


def test_a_trial_that_waits_for_the_imports_says_so(here: Host) -> None:
    order(here, "e-a-1", PLAIN, "slow")
    told = here.server.told("e-a-1")
    said = "the start had to wait because the interpreter imports slow first"
    wait_for(lambda: said in told.notes, "the sentence")
    assert told.started is None
    (here.directory / "gate").touch()
    assert ending(here.server.ended("e-a-1")) == ("exited", 0, None)


def warm_spawner(here: Host) -> int:
    pids = [pid for pid in here.processes() if "warm" in procs.strings(pid, "cmdline")]
    return min(pids)


def test_trials_continue_without_the_keeper_and_new_ones_start_with_the_next(here: Host) -> None:
    code = """
        import os, time
        def train(parameters):
            while not os.path.exists("open"):
                time.sleep(0.005)
            return 1
    """
    order(here, "e-a-1", code)
    wait_for(lambda: here.server.told("e-a-1").started, "the start")
    here.kill()
    here.start()
    order(here, "e-b-1", PLAIN)
    assert results(here.server.ended("e-b-1")) == [0.5]
    (here.directory / "open").touch()
    assert results(here.server.ended("e-a-1")) == [1]


def test_a_killed_warm_spawner_is_replaced(here: Host) -> None:
    order(here, "e-a-1", PLAIN)
    here.server.ended("e-a-1")
    os.kill(warm_spawner(here), signal.SIGKILL)
    order(here, "e-b-1", PLAIN)
    assert results(here.server.ended("e-b-1")) == [0.5]


def test_a_warm_spawner_that_is_killed_during_the_imports_fails_only_the_attempts_that_waited(
    here: Host,
) -> None:
    order(here, "e-a-1", PLAIN, "slow")
    wait_for(lambda: here.server.told("e-a-1").notes, "the sentence that it waits")
    os.kill(warm_spawner(here), signal.SIGKILL)
    told = here.server.ended("e-a-1")
    said = "preload: the interpreter was killed by signal 9 during the imports (see the keeper's log)"
    assert told.final is not None and told.final["message"] == said
    (here.directory / "gate").touch()
    order(here, "e-a-2", PLAIN, "slow")
    assert results(here.server.ended("e-a-2")) == [0.5]


def test_modules_that_were_installed_meanwhile_are_imported(here: Host) -> None:
    order(here, "e-a-1", PLAIN, "heavy", "latecomer")
    assert ending(here.server.ended("e-a-1")) == ("exited", 1, None)
    (here.directory / "libraries" / "latecomer.py").write_text("")
    order(here, "e-a-2", PLAIN, "heavy", "latecomer")
    assert results(here.server.ended("e-a-2")) == [0.5]


def test_it_works_from_a_zip_file(tmp_path: Path) -> None:
    with make_host(tmp_path, package=zipapp.build(str(tmp_path))) as here:
        directory = order(here, "e-a-1", PLAIN)
        told = here.server.ended("e-a-1")
        assert ending(told) == ("exited", 0, None), text(directory / "stderr")
        assert results(told) == [0.5]


@pytest.mark.skipif(oldest_python() is None, reason="no Python 3.8 here")
def test_it_works_with_the_oldest_python(tmp_path: Path) -> None:
    with make_host(tmp_path, python=oldest_python()) as here:
        directory = order(here, "e-a-1", PLAIN)
        told = here.server.ended("e-a-1")
        assert ending(told) == ("exited", 0, None), text(directory / "stderr")
        assert results(told) == [0.5]
