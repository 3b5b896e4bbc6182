"""Ctrl-C during a wait shows no traceback, and is an ordinary KeyboardInterrupt for code that catches it."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from nnimgr.python.interrupts import without_traceback


@pytest.fixture(autouse=True)
def _default_hook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)


def uncaught(error: BaseException) -> None:
    """Do what Python does with an exception that no code catches."""
    try:
        raise error
    except BaseException as raised:
        sys.excepthook(type(raised), raised, raised.__traceback__)


def test_only_the_interrupt_of_the_wait_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    interrupt = KeyboardInterrupt()
    without_traceback(interrupt)
    uncaught(interrupt)
    assert capsys.readouterr().err == ""
    uncaught(ValueError("wrong"))
    assert "ValueError: wrong" in capsys.readouterr().err
    uncaught(KeyboardInterrupt())
    assert "KeyboardInterrupt" in capsys.readouterr().err


def test_a_notebook_shows_nothing() -> None:
    interrupt: Any = KeyboardInterrupt()
    without_traceback(interrupt)
    assert interrupt._render_traceback_() == []
    assert type(interrupt) is KeyboardInterrupt


def test_the_hook_of_a_program_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    def own(*_: object) -> None: ...

    monkeypatch.setattr(sys, "excepthook", own)
    without_traceback(KeyboardInterrupt())
    assert sys.excepthook is own
