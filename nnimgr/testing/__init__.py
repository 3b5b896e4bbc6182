"""Tests for every tuner, assessor and scheduler: inherit `TunerConformance`, `AssessorConformance` or
`SchedulerConformance`.

::

    class TestMine(TunerConformance):
        def make(self):
            return MyTuner(seed=1)

The tests make the same calls as an experiment, through the same code, but in one process. Only this package
imports pytest. ``docs/writing-a-tuner.md`` and ``docs/writing-a-scheduler.md`` are the guides.
"""

from nnimgr.testing.assessors import AssessorConformance
from nnimgr.testing.schedulers import SchedulerConformance
from nnimgr.testing.tuners import TunerConformance

__all__ = ["AssessorConformance", "SchedulerConformance", "TunerConformance"]
