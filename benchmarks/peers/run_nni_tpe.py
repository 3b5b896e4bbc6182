"""NNI 3.0's TPE in its own interpreter. Orders and answers are lines of JSON. Also for Python 3.8.

``{"new": {"space", "seed"}}`` creates a tuner, which ``{"ask": id}`` and ``{"tell": [id, parameters,
value]}`` use. ``{"cost": {"space", "past", "rounds"}}`` returns the CPU ms of one ask and tell after a past,
which is a list of ``{"parameter", "value"}``.
"""

from __future__ import annotations

import json
import logging
import os
import statistics
import sys
import time
from typing import Any

from nni.algorithms.hpo.tpe_tuner import TpeTuner


def make(space: dict[str, Any], seed: int) -> Any:
    tuner = TpeTuner(optimize_mode="minimize", seed=seed)
    tuner.update_search_space(space)
    return tuner


def tell(tuner: Any, parameter_id: int, parameters: Any, value: float) -> None:
    tuner.receive_trial_result(parameter_id, parameters, value)
    tuner.trial_end(parameter_id, True)


def cost(order: dict[str, Any]) -> float:
    tuner = make(order["space"], 0)
    tuner.import_data(order["past"])
    used = []
    for parameter_id in range(order["rounds"] + 1):
        begun = time.process_time()
        tell(tuner, parameter_id, tuner.generate_parameters(parameter_id), float(parameter_id))
        used.append(time.process_time() - begun)
    return 1e3 * statistics.median(used[1:])  # the first call loads modules


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    logging.disable()  # the log would go to standard output, too
    os.dup2(2, 1)
    tuner: Any = None
    for line in sys.stdin:
        order = json.loads(line)
        answer: Any = None
        if "new" in order:
            tuner = make(**order["new"])
        elif "ask" in order:
            answer = tuner.generate_parameters(order["ask"])
        elif "tell" in order:
            tell(tuner, *order["tell"])
        else:
            answer = cost(order["cost"])
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
