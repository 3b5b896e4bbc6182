"""``nnictl completion`` in real shells, with the experiments and trials of a server."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from nnimgr.cli.main import main
from nnimgr.index import Index
from tests.cli.fake import FakeServer, trial

ROOT = Path(__file__).parents[2]
# What each shell runs: it completes the words $LINE and prints the candidates, one a line.
BASH = """
source <(nnictl completion bash)
COMP_LINE=$LINE COMP_POINT=${#LINE} COMP_TYPE=9
read -ra COMP_WORDS <<<"$LINE"
[[ $LINE != *' ' ]] || COMP_WORDS+=('')
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
complete -p nnictl | grep -q _python_argcomplete || exit 9
_python_argcomplete nnictl
printf '%s\\n' "${COMPREPLY[@]}"
"""
# zsh's completion needs its line editor, and that a terminal: here the two builtins at its ends are replaced.
ZSH = """
autoload -Uz compinit is-at-least
compinit -u -D
source <(nnictl completion zsh)
[[ ${_comps[nnictl]} == _python_argcomplete ]] || exit 9
_describe() { print -rl -- ${${(P)2}%%:*} }
BUFFER=$LINE CURSOR=${#LINE}
words=(${(z)LINE})
_python_argcomplete
"""
FISH = """
nnictl completion fish | source
complete --do-complete $LINE | string replace -r '\\t.*' ''
"""
TRIES = 20  # a completion does without ids of trials if the server, on a busy machine, is slow to answer
SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}

CASES = [
    ("nnictl tri", ["trial"]),
    ("nnictl trial st", ["stop"]),
    ("nnictl create --conf", ["--config"]),
    ("nnictl experiment export --type ", ["csv", "json"]),
    ("nnictl experiment show ", ["abcd1234", "other"]),
    ("nnictl experiment show abc", ["abcd1234"]),
    ("nnictl resume qui", ["quickstart"]),
    ("nnictl trial stop abcd1234 -T 1", ["1", "12"]),
    ("nnictl trial stop abcd1234 -T k", ["k1111", "k2222"]),
    ("nnictl log trial abcd1234 --trial_id k2", ["k2222"]),
    ("nnictl create --config ex", ["exp.yml"]),
    ("nnictl completion z", ["zsh"]),
    ("nnictl experiment import abc", ["abcd1234"]),
    ("nnictl experiment import --from csv ex", ["exp.yml"]),
    ("nnictl experiment import --from op", ["optuna"]),
]


@pytest.fixture
def shell_environ(server: FakeServer, tmp_path: Path) -> dict[str, str]:
    """A server with two experiments, and an ``nnictl`` on the PATH."""
    trials = [trial("k1111", 1), trial("k2222", 12, status="RUNNING")]
    server.add("abcd1234").trials = trials
    server.add("other", status="STOPPED")
    Index(server.home).update("other", name="quickstart")
    (tmp_path / "exp.yml").write_text("")
    program = tmp_path / "bin" / "nnictl"
    program.parent.mkdir()
    program.write_text(
        f"#!{sys.executable}\nimport sys\nfrom nnimgr.cli.main import main\nsys.exit(main())\n"
    )
    program.chmod(0o755)
    return {
        **os.environ,
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        "HOME": str(tmp_path),
    }


@pytest.mark.parametrize("shell", list(SCRIPTS))
def test_what_is_completed(shell_environ: dict[str, str], tmp_path: Path, shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed: apt-get install {shell}")
    script = tmp_path / "script"
    script.write_text(SCRIPTS[shell])
    options = {"bash": ["--norc"], "zsh": ["-f"], "fish": ["--no-config"]}[shell]
    for line, expected in CASES:
        for _ in range(TRIES):
            done = subprocess.run(
                [shell, *options, str(script)],
                env={**shell_environ, "LINE": line},
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.stderr == "", line
            found = sorted({word.strip() for word in done.stdout.splitlines()} - {""})
            if found == expected:
                break
        assert found == expected, line


def test_a_completion_imports_little(shell_environ: dict[str, str]) -> None:
    program = (
        "import os, sys\n"
        "from nnimgr.cli.main import main\n"
        "def end(code):\n"
        "    heavy = {'pydantic', 'httpx', 'rich', 'yaml', 'asyncio', 'numpy', 'sqlalchemy'}\n"
        "    print(heavy & set(sys.modules), file=sys.stderr)\n"
        "    os.kill(os.getpid(), 9)\n"
        "os._exit = end\n"
        "main()\n"
    )
    line = "nnictl trial stop abcd1234 -T k"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={
            **shell_environ,
            "_ARGCOMPLETE": "1",
            "_ARGCOMPLETE_STDOUT_FILENAME": os.devnull,
            "COMP_LINE": line,
            "COMP_POINT": str(len(line)),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == "set()\n"


def test_nothing_is_completed_without_a_server(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["completion", "bash"]) == 0
    assert "complete " in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["completion", "tcsh"])
    assert "must be one of bash, zsh, fish, not 'tcsh'" in capsys.readouterr().err
