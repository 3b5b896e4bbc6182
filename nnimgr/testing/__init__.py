"""Tests for every tuner, assessor, scheduler and sink: inherit `TunerConformance`, `AssessorConformance`,
`SchedulerConformance` or `SinkConformance`.

::

    class TestMine(TunerConformance):
        def make(self):
            return MyTuner(seed=1)

The tests make the same calls as an experiment, through the same code, but in one process. Only this package
imports pytest. ``docs/writing-a-tuner.md``, ``docs/writing-a-scheduler.md`` and ``docs/how-to/sinks.md`` are
the guides.
"""

from nnimgr.testing.assessors import AssessorConformance
from nnimgr.testing.schedulers import SchedulerConformance
from nnimgr.testing.sinks import SinkConformance
from nnimgr.testing.tuners import TunerConformance

__all__ = ["AssessorConformance", "SchedulerConformance", "SinkConformance", "TunerConformance"]
