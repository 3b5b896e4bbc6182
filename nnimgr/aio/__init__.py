"""The Python API for programs with asyncio: the same names as in ``nnimgr``, with methods to await::

    from nnimgr import aio, space

    results = await aio.tune("train.py:train", {"x": space.uniform(-5, 5)}, minimize=True, trials=20)
    print(await results.best_params())

Each call runs in a thread of its own, so it never blocks the event loop. What reads from the server is a
method here, also where ``nnimgr`` has a property: ``await run.status()``. A call that is canceled is not
waited for any longer, and may still take effect.
"""

from __future__ import annotations

from nnimgr.aio.running import Experiment, Results, Run, Trial, Trials, tune
from nnimgr.aio.study import AskedTrial, Study

__all__ = ["AskedTrial", "Experiment", "Results", "Run", "Study", "Trial", "Trials", "tune"]
