"""The programs that the trials of these tests run."""

from __future__ import annotations

CURVE = """\
import math, os, nni
parameters = nni.get_next_parameter()
sequence = int(os.environ["NNI_TRIAL_SEQ_ID"])
best = 1 - (math.log10(parameters["lr"]) + 2) ** 2 / 10 + 0.01 * parameters["layers"]
for step in range(1, 6):
    nni.report_intermediate_result(best * (1 - 0.5 ** step))
    print(f"step {step}", flush=True)
nni.report_final_result({"default": best, "seconds": 10.0 + sequence})
"""

HALVING = """\
import nni
parameters = nni.get_next_parameter()
for step in range(parameters["TRIAL_BUDGET"]):
    nni.report_intermediate_result(parameters["lr"] * (step + 1))
nni.report_final_result(parameters["lr"] * parameters["TRIAL_BUDGET"])
"""

SEVERAL = """\
import nni
width = nni.get_next_parameter()["width"]
nni.report_final_result({"accuracy": 1 - 1 / width if width != 3 else 0.1, "latency": width * 10.0})
"""

FAILING = """\
import os, nni
nni.get_next_parameter()
nni.report_intermediate_result(0.25)
if int(os.environ["NNI_TRIAL_SEQ_ID"]) % 2 == 0:
    print("\\033[31mabout to fail\\033[0m", flush=True)
    raise ValueError("the learning rate is too high")
nni.report_final_result(0.5)
"""

# Waits after every third step until the scheduler pauses it.
MEMBER = """\
import time, nni
parameters = nni.get_next_parameter()
state = nni.load_checkpoint() or {"step": 0, "value": 0.0}
for step in range(state["step"] + 1, 10):
    state = {"step": step, "value": state["value"] + parameters["lr"]}
    nni.save_checkpoint(state, step=step, metric=state["value"])
    if step in (3, 6):
        time.sleep(60)
nni.report_final_result(state["value"])
"""

# Does what is written into its pipe, line by line: "report 0.5", "save 0.5" (a checkpoint with this result),
# "final 0.9", "say words".
TOLD = """\
import os, sys, nni
nni.get_next_parameter()
pipe = os.path.join(sys.argv[1], "pipe-" + os.environ["NNI_TRIAL_SEQ_ID"])
os.mkfifo(pipe)
steps = 0
with os.fdopen(os.open(pipe, os.O_RDWR)) as orders:  # its own writer, so that it never ends
    for line in orders:
        verb, _, rest = line.strip().partition(" ")
        if verb == "report":
            nni.report_intermediate_result(float(rest))
        elif verb == "save":
            steps += 1
            nni.save_checkpoint({"steps": steps}, step=steps, metric=float(rest))
        elif verb == "final":
            nni.report_final_result(float(rest))
            break
        else:
            print(rest, flush=True)
"""
