"""``nnictl algo``: registering and showing algorithms."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from nnimgr.cli.main import main
from nnimgr.config import load_config
from nnimgr.home import Home
from tests.cli.terminals import in_a_terminal

META = """\
algoType: tuner
builtinName: mine
className: a_tuner_of_mine.Mine
classArgsValidator: a_tuner_of_mine.Check
"""
CONFIG = """\
searchSpace: {x: {_type: of-my-own, _value: []}}
trialCommand: ./run
trialConcurrency: 1
tuner: {name: MINE, classArgs: {anything: 1}}
trainingService: {platform: local}
"""


@pytest.fixture(autouse=True)
def file(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the registry file. A module with algorithms can be imported."""
    code = tmp_path / "code"
    code.mkdir()
    (code / "a_tuner_of_mine.py").write_text("class Mine: ...\nclass Check: ...\n")
    (code / "broken_of_mine.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(code)
    monkeypatch.setenv("NNI_CONFIG_DIR", str(tmp_path / "nni"))
    Path("meta.yml").write_text(META)
    return tmp_path / "nni" / "registered_algorithms.yml"


@pytest.mark.parametrize("verb", ["register", "reg"])
def test_what_is_registered_can_be_used(file: Path, capsys: pytest.CaptureFixture[str], verb: str) -> None:
    assert main(["algo", verb, "-m", "meta.yml"]) == 0
    assert capsys.readouterr().out == "INFO: mine registered successfully!\n"
    (entry,) = yaml.safe_load(file.read_text())["tuners"]
    assert entry["className"] == "a_tuner_of_mine.Mine" and entry["source"] == "user"
    Path("exp.yml").write_text(CONFIG)
    assert load_config(Path("exp.yml")).config.tuner.name == "MINE"
    assert main(["algo", "register", "--meta_path", "meta.yml", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"registered": ["mine"], "file": str(file)}
    assert main(["algo", "reg", "-m", "meta.yml"]) == 0
    assert "An algorithm mine was registered before: it is replaced." in capsys.readouterr().out


@pytest.mark.parametrize("verb", ["unregister", "unreg"])
def test_unregister(capsys: pytest.CaptureFixture[str], verb: str) -> None:
    assert main(["algo", "reg", "-m", "meta.yml"]) == 0
    capsys.readouterr()
    assert main(["algo", verb, "Mine"]) == 0
    assert capsys.readouterr().out == "INFO: Mine unregistered successfully!\n"
    assert main(["algo", verb, "mine"]) == 1
    assert capsys.readouterr().err == (
        "ERROR: There is no registered algorithm mine.\n  See: nnictl algo list\n"
    )
    assert main(["algo", verb, "random"]) == 1
    assert capsys.readouterr().err == (
        "ERROR: random is built in and cannot be unregistered.\n  See: nnictl algo list\n"
    )
    Path("exp.yml").write_text(CONFIG)
    assert main(["create", "--dry-run", "-c", "exp.yml"]) == 1
    assert "there is no built-in tuner 'MINE'" in capsys.readouterr().err


def test_a_list_of_algorithms_is_taken_whole_or_not_at_all(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    two = [
        {"algoType": "assessor", "builtinName": "judge", "className": "a_tuner_of_mine.Mine"},
        {"algoType": "tuner", "builtinName": "other", "className": "a_tuner_of_mine.Other"},
        {"algoType": "scheduler", "builtinName": "pacer", "className": "a_tuner_of_mine.Mine"},
    ]
    Path("meta.yml").write_text(yaml.safe_dump({"algorithms": two}))
    assert main(["algo", "reg", "-m", "meta.yml"]) == 1
    assert "a_tuner_of_mine.Other cannot be imported: the module" in capsys.readouterr().err
    assert not file.exists()
    two[1]["className"] = "a_tuner_of_mine.Mine"
    Path("meta.yml").write_text(yaml.safe_dump({"algorithms": two}))
    assert main(["algo", "reg", "-m", "meta.yml"]) == 0
    raw = yaml.safe_load(file.read_text())
    names = [raw[key][0]["builtinName"] for key in ("assessors", "tuners", "schedulers")]
    assert names == ["judge", "other", "pacer"]


@pytest.mark.parametrize(
    ("meta", "sentence"),
    [
        (META.replace("mine\n", "Random\n", 1), "Cannot overwrite the builtin algorithm Random."),
        (META.replace("mine\n", "medianstop\n", 1), "Cannot overwrite the builtin algorithm medianstop."),
        (META.replace("mine\n", "pb2\n", 1), "Cannot overwrite the builtin algorithm pb2."),
        (META.replace("algoType", "type"), "meta.yml: algoType must be given, as text."),
        (
            META.replace("tuner\n", "toaster\n", 1),
            "algoType must be one of tuner, assessor, scheduler, ",
        ),
        (META.replace(".Check", ".None"), "a_tuner_of_mine.None cannot be imported"),
        (
            META.replace("a_tuner_of_mine.Mine", "broken_of_mine.X"),
            "division by zero.\n  Install the module in the Python of nnictl",
        ),
        (META.replace("a_tuner_of_mine.Mine", "no_such_module.X"), "No module named 'no_such_module'"),
        ("- 1", "an algorithm is described by a mapping with algoType, builtinName, className."),
        ("a: [", "meta.yml:"),
    ],
)
def test_what_cannot_be_registered(
    file: Path, capsys: pytest.CaptureFixture[str], meta: str, sentence: str
) -> None:
    Path("meta.yml").write_text(meta)
    assert main(["algo", "register", "-m", "meta.yml"]) == 1
    assert sentence in capsys.readouterr().err
    assert not file.exists()


def test_an_advisor_is_registered_like_a_tuner(capsys: pytest.CaptureFixture[str]) -> None:
    Path("meta.yml").write_text(META.replace("algoType: tuner", "algoType: advisor") + "more: 1\n")
    assert main(["algo", "register", "-m", "meta.yml"]) == 0
    told = capsys.readouterr().err
    assert "meta.yml: more is not known and not used." in told
    Path("exp.yml").write_text(CONFIG)
    assert main(["create", "--dry-run", "-c", "exp.yml"]) == 0


def test_show_and_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["algo", "reg", "-m", "meta.yml"]) == 0
    capsys.readouterr()
    assert main(["algo", "show", "MINE"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["algoType"], shown["builtinName"], shown["source"]) == ("tuner", "mine", "user")
    assert shown["classArgsValidator"] == "a_tuner_of_mine.Check"
    assert main(["algo", "show", "random", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["source"] == "nni"
    for name, hint in (("zzz", "."), ("TEP", "; did you mean TPE?")):
        assert main(["algo", "show", name]) == 1
        told = f"ERROR: There is no algorithm {name}{hint}\n  See: nnictl algo list\n"
        assert capsys.readouterr().err == told
    assert main(["algo", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len({len(line) for line in lines}) == 1
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line[0] == "|"]
    assert cells[0] == ["Name", "Type", "Source", "Class Name", "Module Name"]
    assert cells[-1] == ["mine", "tuner", "user", "Mine", "a_tuner_of_mine"]
    assert ["Random", "tuner", "nni", "RandomTuner", "nnimgr.tuners.random"] in cells
    assert main(["algo", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["algorithms"][-1]["name"] == "mine"
    shown = [line.split() for line in in_a_terminal("algo", "list").lines]
    assert ["Random", "tuner", "built", "in", "RandomTuner", "nnimgr.tuners.random"] in shown
    assert ["mine", "tuner", "user", "Mine", "a_tuner_of_mine"] in shown
