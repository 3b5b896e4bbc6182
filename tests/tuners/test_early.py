"""The early import of a tuner's model."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from nnimgr.tuners.early import import_early

PROGRAM = """
import sys, threading
from nnimgr.tuners.tpe import TpeTuner

tuner = TpeTuner()
tuner.update_search_space({"x": {"_type": "uniform", "_value": [0, 1]}})
parameters = tuner.generate_parameters(0)
before = "numpy" in sys.modules
tuner.receive_trial_result(0, parameters, 1.0)
for thread in threading.enumerate():
    if thread is not threading.current_thread():
        thread.join()
print(before, "nnimgr.tuners.tpe_model" in sys.modules)
"""


def test_tpe_loads_its_model_when_the_first_result_comes() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True)
    assert done.stdout == "False True\n"


def test_a_module_that_cannot_be_imported_says_nothing_until_it_is_needed(
    capfd: pytest.CaptureFixture[str],
) -> None:
    import_early("nnimgr.tuners.there_is_no_such_module")
    for thread in threading.enumerate():
        if thread.name == "import-nnimgr.tuners.there_is_no_such_module":
            thread.join()
    assert capfd.readouterr() == ("", "")
