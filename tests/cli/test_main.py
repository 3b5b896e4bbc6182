"""Features that all commands share."""

from __future__ import annotations

import gc
import io
import json
import os
import subprocess
import sys
import weakref

import pytest

from nnimgr import __version__
from nnimgr.cli.main import main
from nnimgr.cli.parsers import GROUPS
from nnimgr.cli.terminal import Terminal
from nnimgr.client.errors import ClientError
from nnimgr.home import Home
from tests.cli.fake import FakeServer


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_help_imports_nothing_heavy() -> None:
    program = (
        "import sys\nfrom nnimgr.cli.main import main\n"
        "try: main(['--help'])\nexcept SystemExit as end: assert end.code == 0\n"
        "heavy = {'pydantic', 'httpx', 'rich', 'yaml', 'asyncio', 'http.client', 'subprocess'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    for command in ("create", "resume", "stop", "top", "experiment", "trial", "log", "hello"):
        assert f"\n  {command} " in done.stdout


def test_version_and_hint(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert main([]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"{__version__}\nusage: nnictl ")
    places = [shown.index(f"\n{title}:\n") for title in GROUPS]
    assert places == sorted(places)
    assert all(f"\n  {name} " in shown for names in GROUPS.values() for name in names)


def test_an_unknown_command_ends_with_2() -> None:
    with pytest.raises(SystemExit) as caught:
        main(["frobnicate"])
    assert caught.value.code == 2


@pytest.mark.parametrize(
    "arguments", [["package", "list"], ["platform", "clean", "-c", "x"], ["ss_gen", "x"]]
)
def test_commands_that_only_nni_has_are_told_as_such(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    command = " ".join(arguments[: 2 if arguments[0] == "experiment" else 1])
    told = capsys.readouterr().err
    assert f"error: nnictl {command} is a command of NNI, but not of nnimgr. " in told


def test_an_option_may_be_cut_short(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    """NNI's documents use --meta, and its users --trial."""
    assert main(["algo", "register", "--meta", "none.yml"]) == 1
    assert capsys.readouterr().err == (
        "ERROR: none.yml: this file does not exist\n  See: nnictl algo register --help\n"
    )
    with pytest.raises(SystemExit) as caught:
        main(["create", "--d", "--config", "exp.yml"])
    assert caught.value.code == 2
    assert "ambiguous option: --d could match --dry-run, --debug" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "rule"),
    [
        (["top", "--port"], "a port is a number from 1 to 65535"),
        (["top", "--time"], "must be from 0.1 to 3600 seconds"),
        (["trial", "ls", "--head"], "must be a number of at least 1"),
    ],
)
@pytest.mark.parametrize("value", ["0", "x", "nan", "-1"])
def test_numbers_have_bounds(
    option: list[str], rule: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main([*option, value])
    assert caught.value.code == 2
    verb = " ".join(word for word in option if not word.startswith("-"))
    assert capsys.readouterr().err.endswith(f"{rule}, not '{value}'\n  See: nnictl {verb} --help\n")


def test_errors_go_to_standard_error_and_end_with_1(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["experiment", "status"]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == (
        "ERROR: There is no experiment running.\n  Start one: nnictl create --config exp.yml\n"
    )


def test_errors_as_json(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["experiment", "status", "none", "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == {
        "error": {
            "message": "There is no experiment 'none'.",
            "mend": "See: nnictl experiment list --all",
        }
    }


def test_a_damaged_index_is_one_sentence(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    home.prepare()
    home.index_path.write_text("{")
    assert main(["experiment", "list"]) == 1
    assert capsys.readouterr().err.startswith(f"ERROR: The index {home.index_path} cannot be used")


def test_a_refusal_of_the_server_is_shown(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    server.add("abc")
    server.experiments.clear()
    assert main(["experiment", "status"]) == 1
    assert capsys.readouterr().err == "ERROR: There is no experiments/abc\n  See: nnictl trial ls abc\n"


def test_colours_only_where_somebody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    plain, coloured = io.StringIO(), Tty()
    for stream in (plain, coloured):
        terminal = Terminal(as_json=False, out=stream, err=stream)
        terminal.info("text")
        terminal.warn("text")
        terminal.fail(ClientError("text"))
    assert plain.getvalue() == "INFO: text\nWARNING: text\nERROR: text\n  See: nnictl --help\n"
    assert coloured.getvalue() == (
        "\x1b[32mINFO: text\x1b[0m\n\x1b[33mWARNING: text\x1b[0m\n\x1b[1;31mERROR: text\x1b[0m\n"
        "  See: nnictl --help\n"
    )
    for name, value in (("NO_COLOR", "1"), ("TERM", "dumb")):
        with monkeypatch.context() as patch:
            patch.setenv(name, value)
            quiet = Tty()
            Terminal(as_json=False, out=quiet).info("text")
        assert quiet.getvalue() == "INFO: text\n"


def test_a_reader_that_has_gone_is_no_traceback(server: FakeServer) -> None:
    server.add("abc", searchSpace={"x": "y" * 200_000})
    with subprocess.Popen(
        [sys.executable, "-m", "nnimgr.cli.main", "experiment", "show", "abc"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


CLOSED = "ERROR: The output cannot be used: standard output is closed."
FULL = "ERROR: The output cannot be used: No space left on device."


@pytest.mark.parametrize("words", ["experiment status abc", "hello --help", "--version"])
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    ("redirection", "told"),
    [
        (">&-", f"{CLOSED}\n  To run the command without its output: nnictl WORDS >/dev/null\n"),
        ("<&- >&- 2>&-", ""),
        (">/dev/full", f"{FULL}\n  Free space on the disk, then repeat: nnictl WORDS\n"),
    ],
)
def test_an_output_that_takes_nothing(
    server: FakeServer, words: str, redirection: str, told: str, unbuffered: str
) -> None:
    server.add("abc")
    command = f"{sys.executable} -m nnimgr.cli.main {words} {redirection}"
    environ = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    found = subprocess.run(["bash", "-c", command], capture_output=True, text=True, env=environ)
    assert (found.returncode, found.stdout, found.stderr) == (1, "", told.replace("WORDS", words))


@pytest.mark.parametrize(("redirection", "told"), [(">&-", CLOSED), (">/dev/full", FULL)])
def test_a_command_without_an_output_does_what_it_is_to_do(
    server: FakeServer, redirection: str, told: str
) -> None:
    server.add("abc")
    command = f"{sys.executable} -m nnimgr.cli.main stop abc {redirection}"
    found = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert server.requests[-1] == ("POST", "experiments/abc/stop", {"detach": False})
    mend = "See: nnictl experiment list --all"
    assert (found.returncode, found.stderr) == (1, f"{told} The command was carried out.\n  {mend}\n")


def test_a_command_without_an_output_succeeds_if_there_is_nothing_to_print() -> None:
    program = "from nnimgr.cli import main as m\nm._load = lambda _: lambda *_: 0\n"
    command = f'{sys.executable} -c \'{program}raise SystemExit(m.main(["experiment", "list"]))\' >&-'
    found = subprocess.run(["bash", "-c", command], capture_output=True, check=False)
    assert (found.returncode, found.stderr) == (0, b"")


def test_an_error_as_json_in_an_output_that_takes_nothing(server: FakeServer) -> None:
    command = f"{sys.executable} -m nnimgr.cli.main trial ls none --json >/dev/full"
    found = subprocess.run(["bash", "-c", command], capture_output=True, check=False)
    assert found.returncode == 1 and b"Traceback" not in found.stderr


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["experiment", "status", "--json"], b'"reason": "l\\u00e4uft"'),
        (["hello", "--directory", "l\u00e4uft"], b"is in l\\xe4uft"),
    ],
    ids=["json", "text"],
)
def test_letters_that_the_locale_lacks(server: FakeServer, words: list[str], shown: bytes) -> None:
    server.add("abc", reason="l\u00e4uft")
    found = subprocess.run(
        [sys.executable, "-m", "nnimgr.cli.main", *words],
        env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "1"},
        capture_output=True,
        check=False,
    )
    assert (found.returncode, found.stderr) == (0, b"")
    assert shown in found.stdout


def test_a_failed_command_leaves_no_error_to_the_garbage_collection(
    server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Its traceback would hold the command's connections, for which a server may wait.
    told: list[weakref.ref[ClientError]] = []

    def fail(self: Terminal, error: ClientError) -> None:
        told.append(weakref.ref(error))

    monkeypatch.setattr(Terminal, "fail", fail)
    gc.disable()
    try:
        assert main(["trial", "get", "unknown", "-T", "ta", "--file", "x"]) == 1
        assert [error() for error in told] == [None]
    finally:
        gc.enable()
