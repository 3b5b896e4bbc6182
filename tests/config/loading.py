"""A small configuration, and the types of the fixtures that load one."""

from __future__ import annotations

from collections.abc import Callable

from nnimgr.config import Loaded

MINIMAL = """\
searchSpace:
  x: {_type: uniform, _value: [0, 1]}
trialCommand: python3 trial.py
trialConcurrency: 2
tuner:
  name: Random
trainingService:
  platform: local
"""

GOAL = "goal: maximize\n"  # without one there is a warning

Load = Callable[..., Loaded]
Faults = Callable[..., list[str]]
