"""Peers that are installed, are missing, or fail."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.ground import Ground
from benchmarks.peers import setup
from benchmarks.peers.ask import Answer, Peers, figures
from benchmarks.report import Figure


@pytest.fixture
def ground(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ground]:
    monkeypatch.setenv("NNIMGR_BENCHMARKS", str(tmp_path / "environments"))
    with Ground(tmp_path) as made:
        yield made


def test_peers_are_asked_only_if_wanted(ground: Ground) -> None:
    assert Peers(ground, wanted=False).ask("noop", concurrency=2) == ()


def test_a_peer_without_an_environment_is_not_installed(ground: Ground) -> None:
    answers = Peers(ground, wanted=True).ask("noop", concurrency=2)
    assert answers == [Answer(peer.title, {}, note="peer not installed") for peer in setup.PEERS.values()]
    assert figures(answers, "per_s")[0] == Figure("NNI 3.0", None, "peer not installed")


def test_an_environment_that_was_not_finished_does_not_count(ground: Ground, tmp_path: Path) -> None:
    python = tmp_path / "environments" / "optuna" / "bin" / "python3"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    assert setup.interpreter("optuna") is None
    (python.parents[1] / "installed").touch()
    assert setup.interpreter("optuna") == python


def test_a_peer_that_fails_says_its_last_words(ground: Ground, tmp_path: Path) -> None:
    python = tmp_path / "environments" / "optuna" / "bin" / "python3"
    python.parent.mkdir(parents=True)
    python.symlink_to("/bin/false")
    (python.parents[1] / "installed").touch()
    answers = Peers(ground, wanted=True).ask("noop", concurrency=2)
    notes = {answer.peer: answer.note for answer in answers}
    assert notes["Optuna 5.0.0"] == "ended with 1"


def test_figures_name_the_way_a_peer_was_used() -> None:
    answers = [Answer("Peer", {"per_s": 2.0}, variant="journal"), Answer("Other", {"p50": 1.0})]
    assert figures(answers, "per_s") == (Figure("Peer (journal)", 2.0), Figure("Other", None))


def test_the_interpreter_that_was_named_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NNIMGR_BENCHMARKS_PYTHON_OPTUNA", sys.executable)
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    monkeypatch.setitem(setup.PEERS, "optuna", setup.Peer("Optuna", (), (version,), trials=1))
    assert setup.base_python("optuna") == sys.executable


def test_without_a_fitting_interpreter_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(setup.PEERS, "optuna", setup.Peer("Optuna", (), ("2.7",), trials=1))
    monkeypatch.setenv("PATH", "")
    with pytest.raises(LookupError, match=r"needs one of Python 2\.7.*NNIMGR_BENCHMARKS_PYTHON_OPTUNA"):
        setup.base_python("optuna")
