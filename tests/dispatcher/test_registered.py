"""Algorithms that users have registered: the file, and the search in it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import yaml

from nnimgr.dispatcher import messages as m
from nnimgr.dispatcher import registry
from nnimgr.dispatcher.installed import Interpreter
from nnimgr.dispatcher.registered import (
    Registered,
    RegistryFileError,
    register,
    registered,
    registry_file,
    unregister,
)
from tests.dispatcher.conftest import Host

MINE = Registered(
    role="tuner",
    name="Mine",
    class_name="my_tuner.Mine",
    validator="my_tuner.Check",
    class_args={"base": 1},
    aliases=("MineTuner",),
    version="1",
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "nni" / "registered_algorithms.yml"


def of(file: Path) -> Interpreter:
    """Return this Python with the user whose registry is ``file``."""
    return Interpreter(environ={**os.environ, "NNI_CONFIG_DIR": str(file.parent)})


def test_where_the_file_is(tmp_path: Path) -> None:
    name = "registered_algorithms.yml"
    assert registry_file({"NNI_CONFIG_DIR": "/there"}) == Path("/there") / name
    environ = {"HOME": "/home/me"}
    assert registry_file(environ, python="/usr/bin/python3") == Path("/home/me/.config/nni") / name
    python = str(tmp_path / "venv" / "bin" / "python")
    for mark in ("pyvenv.cfg", "conda-meta/history"):
        path = tmp_path / "venv" / mark
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        assert registry_file(environ, python=python) == tmp_path / "venv" / "nni" / name
        path.unlink()
    if sys.prefix != sys.base_prefix:
        assert registry_file({}) == Path(sys.prefix) / "nni" / name


def test_what_is_registered_is_found_again(file: Path) -> None:
    assert registered(file) == []
    assert not register(MINE, file)
    judge = Registered(role="assessor", name="Judge", class_name="j.Judge", takes_arguments=False)
    pacer = Registered(role="scheduler", name="Pacer", class_name="p.Pacer")
    assert not register(judge, file) and not register(pacer, file)
    assert registered(file) == [MINE, judge, pacer]
    assert yaml.safe_load(file.read_text()) == {
        "tuners": [
            {
                "builtinName": "Mine",
                "className": "my_tuner.Mine",
                "classArgsValidator": "my_tuner.Check",
                "classArgs": {"base": 1},
                "alias": "MineTuner",
                "source": "user",
                "nniVersion": "1",
            }
        ],
        "assessors": [
            {
                "builtinName": "Judge",
                "className": "j.Judge",
                "acceptClassArgs": False,
                "source": "user",
                "nniVersion": "",
            }
        ],
        "schedulers": [{"builtinName": "Pacer", "className": "p.Pacer", "source": "user", "nniVersion": ""}],
    }
    assert register(Registered(role="tuner", name="mine", class_name="other.Mine"), file)
    assert [entry.class_name for entry in registered(file)] == ["other.Mine", "j.Judge", "p.Pacer"]
    assert unregister("MINE", file) and not unregister("MINE", file)


def test_what_nni_has_written_is_kept(file: Path) -> None:
    file.parent.mkdir()
    theirs = {"builtinName": "TPE", "className": "x.Y", "source": "nni"}
    advisor = {"builtinName": "Adv", "className": "a.B", "source": "user"}
    file.write_text(yaml.safe_dump({"tuners": [theirs], "advisors": [advisor], "more": 1}))
    register(MINE, file)
    raw = yaml.safe_load(file.read_text())
    assert (raw["tuners"][0], raw["advisors"], raw["more"]) == (theirs, [advisor], 1)
    assert [entry.name for entry in registered(file)] == ["Mine", "Adv"]
    assert registered(file)[1].is_advisor
    registry.check("tuner", "adv", {}, interpreter=of(file))


@pytest.mark.parametrize("text", ["[", "- 1", "tuners: {a: 1}", "\xff"])
def test_a_damaged_file_is_one_sentence_and_stays(file: Path, text: str) -> None:
    file.parent.mkdir()
    file.write_text(text, encoding="latin-1")
    for work in (lambda: registered(file), lambda: register(MINE, file)):
        with pytest.raises(RegistryFileError) as caught:
            work()
        assert str(caught.value).startswith(str(file)) and "\n" not in str(caught.value)
    with pytest.raises(registry.AlgorithmError, match="registered_algorithms"):
        registry.check("tuner", "mine", {}, interpreter=of(file))
    registry.check("tuner", "random", {}, interpreter=of(file))
    assert file.read_text(encoding="latin-1") == text


def test_a_name_is_looked_up_behind_the_built_in_ones(file: Path) -> None:
    register(MINE, file)
    assert registry.resolve("tuner", "minetuner", interpreter=of(file)) == MINE
    assert isinstance(registry.resolve("tuner", "random", interpreter=of(file)), registry.Builtin)
    registry.check("tuner", "mine", {"anything": 1}, interpreter=of(file))
    with pytest.raises(registry.AlgorithmError, match="there is no built-in assessor 'Mine'"):
        registry.check("assessor", "Mine", {}, interpreter=of(file))
    register(Registered(role="assessor", name="J", class_name="j.J", takes_arguments=False), file)
    with pytest.raises(registry.AlgorithmError, match="J takes no arguments"):
        registry.check("assessor", "J", {"x": 1}, interpreter=of(file))


CODE = """
from nni.utils import ClassArgsValidator
from nni.tuner import Tuner

class Mine(Tuner):
    def __init__(self, base, step=1):
        self.base, self.step = base, step
    def update_search_space(self, search_space):
        pass
    def generate_parameters(self, parameter_id, **kwargs):
        return {"x": self.base + self.step * parameter_id}
    def receive_trial_result(self, *args, **kwargs):
        pass

class Check(ClassArgsValidator):
    def validate_class_args(self, **kwargs):
        if kwargs["step"] < 0:
            raise ValueError(f"step must not be {kwargs['step']}")
"""


async def test_one_is_hosted_under_its_name(
    host: Host, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NNI_CONFIG_DIR", str(file.parent))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "my_tuner.py").write_text(CODE)
    register(MINE, file)
    tuner = await host(name="mine", class_args={"step": 10})
    tuner.ask(0, 1)
    assert await tuner.suggestions(2) == ['{"x": 1}', '{"x": 11}']


async def test_its_validator_is_asked_first(
    host: Host, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NNI_CONFIG_DIR", str(file.parent))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "my_tuner.py").write_text(CODE)
    register(MINE, file)
    failed = await (await host(name="mine", class_args={"step": -1})).expect(m.Failed)
    assert (failed.call, failed.hopeless) == ("classArgs", True)
    assert failed.sentence == "the tuner's classArgs raised ValueError: step must not be -1"
