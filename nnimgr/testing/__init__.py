"""What every tuner and assessor has to keep, as tests: inherit `TunerConformance` or `AssessorConformance`.

::

    class TestMine(TunerConformance):
        def make(self):
            return MyTuner(seed=1)

The tests make the calls that an experiment makes, through the code that makes them there, in one process.
pytest is needed, and imported, here only. ``docs/writing-a-tuner.md`` is the guide.
"""

from nnimgr.testing.assessors import AssessorConformance
from nnimgr.testing.tuners import TunerConformance

__all__ = ["AssessorConformance", "TunerConformance"]
