"""What squeue shows, as sentences and ends."""

from __future__ import annotations

from datetime import timedelta

import pytest

from training_services.base import Cause
from training_services.slurm.table import end_of, parse, parse_left, why_pending

OUTPUT = """\
7|nnimgr-e-p1|PENDING|Resources|NOT_SET|gpu|10||nnimgr db
3|train|PENDING|Priority|1:00|gpu|30||(null)
4|train|PENDING|Priority|1:00|gpu|20||a|b
5_[0-9]|train|PENDING|Priority|1:00|gpu|10||(null)
8|train|PENDING|Priority|1:00|gpu|10||(null)
5|other|PENDING|Priority|1:00|cpu|99||(null)
6|train|RUNNING|None|1:00|gpu|99|n1|(null)
2|nnimgr-e-p2|TIMEOUT|TimeLimit|0:00|gpu|10|n2|nnimgr db
not a job
"""


def test_why_an_allocation_waits_is_one_sentence() -> None:
    table = parse(OUTPUT, 5.0)
    row = table.find("nnimgr-e-p1", "nnimgr db", None)
    assert row is not None and row.pending and row.alive
    sentence = "waits in partition gpu: the nodes that it needs are in use; 3 jobs are before it"
    assert why_pending(table, row) == sentence
    unknown = row._replace(reason="(SomeNewCode, more)", priority=99)
    assert why_pending(table, unknown) == "waits in partition gpu: Slurm says SomeNewCode, more"
    held = row._replace(reason="JobHeldUser")
    assert why_pending(table, held) == "waits in partition gpu: its user holds it (scontrol release)"
    drained = "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions"
    assert why_pending(table, row._replace(reason=drained, priority=99)).endswith(f"Slurm says {drained}")
    known = row._replace(reason="(ReqNodeNotAvail, UnavailableNodes:n1)", priority=99)
    assert why_pending(table, known).endswith("the nodes that it needs are not available")


def test_an_allocation_is_known_by_name_and_comment() -> None:
    table = parse(OUTPUT, 5.0)
    assert table.find("nnimgr-e-p1", "nnimgr other", None) is None
    assert table.find("train", "a|b", None) is not None


def test_of_two_with_one_name_the_known_one_counts_and_then_the_one_that_lives() -> None:
    line = "{}|n|{}|None|1:00|p|1|n1|c"
    table = parse("\n".join([line.format(1, "COMPLETED"), line.format(2, "RUNNING")]), 0.0)
    found = [table.find("n", "c", job_id) for job_id in (None, "1", "2")]
    assert [row and row.job_id for row in found] == ["2", "1", "2"]


def test_all_that_live_are_ended_together() -> None:
    line = "{}|n|{}|None|1:00|p|1|n1|{}"
    states = [(1, "COMPLETED", "c"), (2, "RUNNING", "c"), (3, "PENDING", "c"), (4, "RUNNING", "other")]
    table = parse("\n".join(line.format(*each) for each in states), 0.0)
    assert (table.living("n", "c"), table.living("m", "c")) == (["2", "3"], [])


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("9:58", timedelta(minutes=9, seconds=58)),
        ("1-02:03:04", timedelta(days=1, hours=2, minutes=3, seconds=4)),
        ("UNLIMITED", None),
        ("NOT_SET", None),
    ],
)
def test_the_time_left_is_read(text: str, left: timedelta | None) -> None:
    assert parse_left(text) == left


def test_only_states_that_prove_the_end_are_ends() -> None:
    for state in ("RUNNING", "COMPLETING", "NODE_FAIL", "", "SOMETHING_NEW"):
        assert end_of(state, "7") is None
    vacated = end_of("NODE_FAIL", "7", vacated=True)
    assert vacated is not None and vacated.reason == "allocation 7 was ended because its node failed"
    timeout, failed, canceled = (end_of(state, "7") for state in ("TIMEOUT", "FAILED", "CANCELLED by 1000"))
    assert timeout is not None and (timeout.cause, timeout.failed) == (Cause.PREEMPTED, False)
    assert failed is not None and failed.failed
    assert canceled is not None and canceled.reason == "allocation 7 was canceled (scancel)"
