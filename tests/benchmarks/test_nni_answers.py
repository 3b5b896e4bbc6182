"""Differences between NNI's answers and ours that count as equal, and those that are found."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from benchmarks.nni_answers import compare
from tests.e2e.answers import Answer, Names, in_order, read_recorded, recorded

HEADERS = {"content-type": "application/json; charset=utf-8", "date": "now"}


def metric(trial: int, sequence: int, data: str = "1", kind: str = "PERIODICAL") -> str:
    return json.dumps(
        {"timestamp": 0, "trialJobId": f"trial {trial}", "type": kind, "sequence": sequence, "data": data},
        ensure_ascii=False,
    )


def told(*items: str) -> Answer:
    return Answer(status=200, headers=HEADERS, text=f"[{','.join(items)}]")


def test_ids_instants_ports_and_places_are_named_alike() -> None:
    theirs = Names.of("abc", ["Ab1", "Cd2"], {"/tmp/nni/work": "work", "/tmp/nni": "code"})
    ours = Names.of("xyz", ["Ef3", "Gh4"], {"/home/me": "work", "/home/code": "code"})
    body = (
        b'[{"trialJobId":"Cd2","startTime":1795161897672,"logPath":"/tmp/nni/work/abc/environments/local-env'
        b'/trials/Cd2","sequenceId":1,"envId":"local-env"},{"id":"abc","port":80,"dir":"/tmp/nni"}]'
    )
    our_body = (
        b'[{"trialJobId":"Gh4","startTime":1795161999999,"logPath":"/home/me/xyz/trials/Gh4","sequenceId":1,'
        b'"message":"with \\"code\\" 1","envId":"local-env"},{"id":"xyz","port":81,"dir":"/home/code"}]'
    )
    assert theirs.plain(body) == ours.plain(our_body)
    assert "Cd2" not in theirs.plain(body)


def test_what_a_metric_says_is_left_as_it_is() -> None:
    names = Names.of("abc", ["Ab1"], {})
    data = json.dumps('{"timestamp": 1795161897672, "trialJobId": "Ab1", "port": 1, "message": "x"}')
    body = f'[{{"timestamp":1795161897672,"trialJobId":"Ab1","data":{json.dumps(data)}}}]'
    assert (
        names.plain(body.encode()) == f'[{{"timestamp":0,"trialJobId":"trial 0","data":{json.dumps(data)}}}]'
    )


@pytest.mark.parametrize(
    "other",
    [
        told(metric(0, 0), metric(0, 1, "2")),
        told(metric(0, 0)),
        told(metric(0, 0), metric(0, 1), metric(0, 2)),
        replace(told(metric(0, 0), metric(0, 1)), status=500),
        replace(told(metric(0, 0), metric(0, 1)), headers={"content-type": "text/plain"}),
    ],
)
def test_a_difference_is_told(other: Answer) -> None:
    answer = told(metric(0, 0), metric(0, 1))
    assert answer.difference(answer) == "" and answer.difference(replace(answer, headers=HEADERS)) == ""
    assert "and not" in answer.difference(other)
    tally = compare({("metric-data", "metric-data"): answer}, {("metric-data", "metric-data"): other})
    assert len(tally["metric-data"].differences) == 1


def test_nnis_order_of_chance_is_no_difference_but_ours_would_be() -> None:
    right, wrong = told(metric(0, 0), metric(0, 1, "é"), metric(1, 0)), told(metric(0, 1, "é"), metric(0, 0))
    wrong = replace(wrong, text=f"{wrong.text[:-1]},{metric(1, 0)}]")
    assert in_order(right) and not in_order(wrong)
    key = ("metric-data/{trial}", "metric-data/0")
    assert compare({key: wrong}, {key: right})[key[0]].reordered == 1
    assert len(compare({key: right}, {key: wrong})[key[0]].differences) == 1
    key = ("trial-jobs", "trial-jobs")
    assert len(compare({key: wrong}, {key: right})[key[0]].differences) == 1


def test_what_is_compared_is_counted() -> None:
    whole, one, none = told(metric(0, 0), metric(0, 1, "é")), replace(told(), text="3.0.0"), told()
    found = {("a", "a/0"): whole, ("a", "a/1"): none, ("b", "b"): one}
    tallies = compare(found, found)
    assert (tallies["a"].answers, tallies["a"].records) == (2, 2)
    assert tallies["a"].size == len(whole.text.encode()) + 2
    assert (tallies["b"].records, tallies["b"].differences) == (1, [])


def test_answers_are_recorded_and_read_again() -> None:
    found = {"a": told(metric(0, 0, "é\n")), "b": replace(told(), status=500), "c": told(metric(0, 0, "é\n"))}
    kept = read_recorded(recorded(found))
    assert list(kept) == list(found)
    assert all(found[path].difference(kept[path]) == "" for path in found)
