"""Tests for every tuner and assessor: inherit `TunerConformance` or `AssessorConformance`.

::

    class TestMine(TunerConformance):
        def make(self):
            return MyTuner(seed=1)

The tests make the same calls as an experiment, through the same code, but in one process. Only this package
imports pytest. ``docs/writing-a-tuner.md`` is the guide.
"""

from nnimgr.testing.assessors import AssessorConformance
from nnimgr.testing.tuners import TunerConformance

__all__ = ["AssessorConformance", "TunerConformance"]
