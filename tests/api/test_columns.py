"""Columns, filtered pages and exports of trials over REST."""

from __future__ import annotations

import asyncio
import csv
import io
from typing import Any, cast
from urllib.parse import quote

import httpx
import pytest

from nnimgr.analysis.errors import AnalysisFailed
from nnimgr.api.analysis import COLUMNS
from nnimgr.api.asgi import Scope
from nnimgr.api.routes import trial_export
from nnimgr.rules import facts as f
from nnimgr.store.errors import StoreError
from tests.analysis.test_binary_columns import unpack
from tests.api.lab import BEARER, EXPERIMENT, Lab


@pytest.fixture
async def filled(lab: Lab) -> Lab:
    """End trials 0 and 1 with 0.5 and with an object, and queue two customised trials behind 2 and 3."""
    for sequence, (value, text) in enumerate([(0.5, "0.5"), (0.25, '{"default": 0.25, "acc": 2}')]):
        lab.life.start(sequence)
        lab.life.take(f.MetricReported(lab.life.job(sequence), 0, "FINAL", 0, "0", value, text))
        lab.life.end(sequence)
    await lab.runner.commit()
    await lab.runner.add_trial({"x": 7, "=cmd|' /C calc'!A0": "=1+1", "net": {"_name": "conv", "size": 3}})
    await lab.runner.add_trial({"x": -3.5, "y": "-3", "z": [1, None], "flag": True})
    return lab


async def get(lab: Lab, path: str, **query: str) -> httpx.Response:
    return await lab.client.get(f"{EXPERIMENT}/{path}", params=query)


async def sequences(lab: Lab, **query: str) -> tuple[int, list[int]]:
    answer = await get(lab, "trials", **query)
    assert answer.status_code == 200, answer.text
    return answer.json()["total"], [trial["sequence"] for trial in answer.json()["trials"]]


async def test_all_columns(filled: Lab) -> None:
    answer = await get(filled, "columns")
    assert answer.headers["content-type"] == COLUMNS
    header, arrays = unpack(answer.content)
    assert (header["rows"], header["total"], header["revision"]) == (6, 6, filled.life.state.number)
    assert header["originAt"] == "2026-01-01T00:00:00+00:00"
    assert arrays["sequence"] == [0, 1, 2, 3, 4, 5]
    assert arrays["value"][:2] == [0.5, 0.25]
    assert arrays["parameters.x"] == [1, 1, 1, 1, 7, -3.5]
    status = next(column for column in header["columns"] if column["name"] == "status")
    assert [status["categories"][code] for code in arrays["status"][:3]] == [
        "SUCCEEDED",
        "SUCCEEDED",
        "WAITING",
    ]


async def test_arrow(filled: Lab) -> None:
    ipc = pytest.importorskip("pyarrow.ipc", reason="pyarrow is not installed")
    answer = await get(filled, "trials/export", format="arrow", filter="value>0.3", columns="id,value")
    assert answer.headers["content-type"] == "application/vnd.apache.arrow.stream"
    table = ipc.open_stream(answer.content).read_all()
    assert table.to_pydict() == {"id": [filled.life.trial(0)], "value": [0.5]}
    bad = await get(filled, "trials/export", format="arrow", columns="valu")
    assert bad.status_code == 422 and "there is no column valu; did you mean value" in bad.text


async def test_arrow_without_its_library(filled: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial_export, "fault_of", lambda modules: f"needs {modules[0]}")
    answer = await get(filled, "trials/export", format="arrow")
    assert answer.status_code == 422 and "on the server, arrow needs pyarrow" in answer.text


async def test_exact_numbers(filled: Lab) -> None:
    types = []
    for exact in ("false", "true"):
        header, arrays = unpack((await get(filled, "columns", names="value", exact=exact)).content)
        types.append(next(column["type"] for column in header["columns"] if column["name"] == "value"))
        assert arrays["value"][:2] == [0.5, 0.25]
    assert types == ["f32", "f64"]


async def test_only_what_has_changed(filled: Lab) -> None:
    header, _ = unpack((await get(filled, "columns", names="value")).content)
    since = str(header["revision"])
    assert unpack((await get(filled, "columns", names="value", since=since)).content)[0]["rows"] == 0
    filled.life.start(2)
    filled.life.metric(2, 0, 9.0, "FINAL")
    await filled.runner.commit()
    header, arrays = unpack((await get(filled, "columns", names="value", since=since)).content)
    assert arrays == {"sequence": [2], "value": [9.0]}
    assert (header["rows"], header["total"], header["revision"]) == (1, 6, filled.life.state.number)


async def test_names_may_be_quoted(filled: Lab) -> None:
    strange = "parameters.=cmd|' /C calc'!A0"
    _, arrays = unpack((await get(filled, "columns", names=f'status,"{strange}"')).content)
    assert list(arrays) == ["sequence", "status", strange]


async def test_a_column_that_is_not_there(filled: Lab) -> None:
    answer = await get(filled, "columns", names="valeu")
    assert answer.status_code == 422
    assert answer.json()["error"]["message"] == "names: there is no column valeu; did you mean value?"


async def test_the_schema(filled: Lab) -> None:
    answer = (await get(filled, "columns/schema")).json()
    assert (answer["total"], answer["revision"], answer["leftOut"]) == (6, filled.life.state.number, 0)
    columns = {column["name"]: column for column in answer["columns"]}
    assert columns["parameters.x"] == {
        "name": "parameters.x",
        "kind": "number",
        "min": -3.5,
        "max": 7.0,
        "categories": None,
        "count": 6,
        "integer": False,
        "log": False,
    }
    assert columns["parameters.net/_name"]["kind"] == "category"
    assert columns["parameters.net/_name"]["categories"] == ["conv"]
    assert columns["parameters.net/_name"]["count"] == 1
    assert columns["parameters.net/size"]["integer"] is True
    assert columns["status"]["kind"] == "status"
    assert columns["created"]["kind"] == "time"
    assert columns["metrics.acc"]["count"] == 1


@pytest.mark.parametrize(
    ("query", "total", "found"),
    [
        ({"filter": "x>1"}, 1, [4]),
        ({"filter": "Status:SUCCEEDED", "sort": "value"}, 2, [1, 0]),
        ({"sort": "parameters.x", "order": "desc", "limit": "2"}, 6, [4, 0]),
        ({"sort": "metrics.acc"}, 6, [1, 0, 2, 3, 4, 5]),
        ({"sort": "latest", "offset": "4"}, 6, [4, 5]),
        ({"filter": "x<2", "search": "1", "status": "SUCCEEDED"}, 2, [0, 1]),
        ({"filter": "acc:null;no.≠3", "sort": "parameters.net/size"}, 4, [4, 0, 2, 5]),
    ],
)
async def test_filters_and_sorts(filled: Lab, query: dict[str, str], total: int, found: list[int]) -> None:
    assert await sequences(filled, **query) == (total, found)
    assert filled.analyst.asked == ["page"]


async def test_what_the_database_can_say_is_not_asked_of_the_analysis(filled: Lab) -> None:
    assert await sequences(filled, sort="value", status="SUCCEEDED", search="x") == (2, [1, 0])
    assert filled.analyst.asked == []


async def test_a_bad_filter_says_where(filled: Lab) -> None:
    answer = await get(filled, "trials", filter="x>1;x>>2")
    assert answer.status_code == 422
    assert answer.json()["error"]["problems"] == [
        {"field": "filter", "message": "expected a number, found >2", "position": 6}
    ]


@pytest.mark.parametrize(
    "path",
    ["trials?sort=parameters.", "trials?sort=bogus", "columns?since=-1", f"analysis/curves?sequence={2**70}"],
)
async def test_bad_queries(filled: Lab, path: str) -> None:
    assert (await filled.client.get(f"{EXPERIMENT}/{path}")).status_code == 422


@pytest.mark.parametrize(
    ("failure", "status"),
    [
        (AnalysisFailed("It fell."), 500),
        (StoreError("no disk"), 503),
        (FileNotFoundError("there is no database x"), 404),
    ],
)
async def test_what_fails_is_told(filled: Lab, failure: Exception, status: int) -> None:
    filled.analyst.failure = failure
    answer = await get(filled, "columns/schema")
    assert answer.status_code == status
    assert answer.json()["error"]["message"] == str(failure)


async def test_a_parameter_with_a_line_break_in_its_name(filled: Lab) -> None:
    await filled.runner.add_trial({"two\nlines": 1})
    assert await sequences(filled, sort="parameters.two\nlines", filter='"two\\nlines":1') == (1, [6])


async def test_an_unknown_experiment(lab: Lab) -> None:
    assert (await lab.client.get("/api/v1/experiments/none/columns")).status_code == 404


async def test_a_stopped_experiment_is_analysed_all_the_same(filled: Lab) -> None:
    filled.manager.runner, filled.manager.views = None, True
    assert await sequences(filled, filter="x>1") == (1, [4])


async def test_the_question_of_a_client_that_has_gone_is_dropped(filled: Lab) -> None:
    filled.analyst.hold = asyncio.Event()
    messages = [{"type": "http.request", "body": b""}, {"type": "http.disconnect"}]

    async def receive() -> Any:
        return messages.pop(0)

    async def send(message: Any) -> None:
        pass

    scope: Scope = {
        "type": "http",
        "method": "GET",
        "path": f"{EXPERIMENT}/columns",
        "raw_path": f"{EXPERIMENT}/columns".encode(),
        "query_string": b"",
        "root_path": "",
        "scheme": "http",
        "headers": [
            (b"host", b"localhost:8080"),
            *((key.lower().encode(), value.encode()) for key, value in BEARER.items()),
        ],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8080),
        "http_version": "1.1",
    }
    await filled.app(scope, receive, cast(Any, send))
    assert filled.analyst.dropped == ["columns"]


# ---- files ------------------------------------------------------------------------------------------------


async def export(lab: Lab, **query: str) -> list[list[str]]:
    answer = await get(lab, "trials/export", **query)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-disposition"] == 'attachment; filename="exp-trials.csv"'
    return list(csv.reader(io.StringIO(answer.text)))


async def test_csv_has_a_column_for_each_parameter_and_metric(filled: Lab) -> None:
    head, *lines = await export(filled)
    assert head[:5] == ["id", "sequence", "status", "source", "attempt"]
    assert head[-8:] == [
        "parameters.x",
        "parameters.=cmd|' /C calc'!A0",
        "parameters.net/_name",
        "parameters.net/size",
        "parameters.y",
        "parameters.z",
        "parameters.flag",
        "metrics.acc",
    ]
    rows = [dict(zip(head, line, strict=True)) for line in lines]
    assert [row["sequence"] for row in rows] == ["0", "1", "2", "3", "4", "5"]
    assert rows[0]["id"] == filled.life.trial(0)
    assert rows[0]["created"] == "2026-01-01T00:00:00+00:00"
    assert (rows[0]["duration"], rows[0]["value"], rows[1]["metrics.acc"]) == ("0.0", "0.5", "2")
    assert (rows[2]["duration"], rows[2]["value"], rows[2]["ended"]) == ("", "", "")
    assert rows[4]["parameters.=cmd|' /C calc'!A0"] == "'=1+1"
    assert (rows[4]["parameters.net/_name"], rows[4]["parameters.net/size"]) == ("conv", "3")
    assert (rows[5]["parameters.x"], rows[5]["parameters.y"]) == ("-3.5", "-3")
    assert (rows[5]["parameters.z"], rows[5]["parameters.flag"]) == ("[1, null]", "true")


async def test_only_some_rows_and_columns(filled: Lab) -> None:
    wanted = ",".join([filled.life.trial(5), filled.life.trial(0), "nobody"])
    found = await export(
        filled, columns="sequence,parameters.x", trialIds=wanted, sort="parameters.x", order="desc"
    )
    assert found == [["sequence", "parameters.x"], ["0", "1"], ["5", "-3.5"]]
    assert await export(filled, columns="sequence", filter="x>100") == [["sequence"]]
    assert await export(filled, columns="sequence", status="SUCCEEDED", search="x") == [
        ["sequence"],
        ["0"],
        ["1"],
    ]


async def test_json_objects_have_the_same_columns(filled: Lab) -> None:
    answer = await get(filled, "trials/export", format="json", filter="x>1", columns="id,value,parameters.x")
    assert answer.headers["content-type"] == "application/json"
    assert answer.json() == {
        "total": 1,
        "trials": [{"id": filled.life.trial(4), "value": None, "parameters.x": 7}],
    }
    everything = (await get(filled, "trials/export", format="json")).json()
    assert everything["total"] == len(everything["trials"]) == 6
    assert everything["trials"][5]["parameters.z"] == [1, None]
    assert (await get(filled, "trials/export", format="json", filter="x>9")).json() == {
        "total": 0,
        "trials": [],
    }


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("NaN", "NaN"),
        ('"-x"', "'-x"),
        ('{"default": "x", "k": Infinity}', ""),
        ('{"default": "x", "\\ud800": "\\udfff"}', ""),
    ],
)
async def test_results_that_are_no_numbers(lab: Lab, text: str, shown: str) -> None:
    lab.life.start(0)
    lab.life.take(f.MetricReported(lab.life.job(0), 0, "FINAL", 0, "0", None, text))
    lab.life.end(0)
    await lab.runner.commit()
    found = await export(lab, columns="sequence,value", trialIds=lab.life.trial(0))
    assert found == [["sequence", "value"], ["0", shown]]
    answer = await get(lab, "trials/export", format="json", trialIds=lab.life.trial(0))
    assert answer.json()["total"] == 1


async def test_pages_of_a_long_export_follow_each_other(filled: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nnimgr.api.routes.trial_export._PAGE", 2)
    assert [line[0] for line in await export(filled, columns="sequence", sort="sequence", order="desc")] == [
        "sequence",
        *"543210",
    ]
    answer = await get(filled, "trials/export", format="json", columns="sequence")
    assert [trial["sequence"] for trial in answer.json()["trials"]] == [0, 1, 2, 3, 4, 5]


async def test_an_export_says_what_it_does_not_know(filled: Lab) -> None:
    answer = await get(filled, "trials/export", columns="id,what")
    assert answer.status_code == 422
    assert answer.json()["error"]["problems"][0]["field"] == "columns"
    answer = await filled.client.get(f"{EXPERIMENT}/trials/export?filter={quote('x>>')}")
    assert answer.status_code == 422


async def test_a_column_of_half_a_character(filled: Lab) -> None:
    answer = await get(filled, "trials/export", columns='"\\ud800"')
    assert answer.status_code == 422
    assert "valid Unicode" in answer.json()["error"]["message"]
