"""``nnictl experiment import``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nnimgr.cli.main import main
from tests.cli.fake import FakeServer, Refused

RECORDS = [{"parameter": {"x": 1}, "value": 0.5}, {"parameter": {"x": 2}, "value": {"default": 0.7}}]


def tuned_by(server: FakeServer, name: str) -> None:
    server.add("abc", config={"tuner": {"name": name}})


def test_records_are_sent(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    tuned_by(server, "TPE")
    more = [{**RECORDS[0], "trialJobId": "ta", "intermediate": []}, RECORDS[1]]  # in export's form
    Path("data.json").write_text(json.dumps(more))
    assert main(["experiment", "import", "-f", "data.json"]) == 0
    printed = capsys.readouterr()
    assert printed.out == "INFO: Import data success! 2 results were given to the tuner.\n"
    assert printed.err == ""
    assert server.requests[0] == ("POST", "experiments/abc/import", {"records": RECORDS})
    assert main(["experiment", "import", "abc", "-f", "data.json", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "id": "abc",
        "records": 2,
        "given": 2,
        "warnings": [],
    }


@pytest.mark.parametrize(
    ("given", "told", "code"),
    [
        (1, "Import data success! 1 of 2 results was given to the tuner.", 0),
        (0, "None of the 2 results was given to the tuner.", 1),
    ],
)
def test_what_the_tuner_does_not_get_is_told_at_once(
    server: FakeServer, capsys: pytest.CaptureFixture[str], given: int, told: str, code: int
) -> None:
    tuned_by(server, "TPE")
    server.patch = {"given": given, "warnings": ["result number 2 was left out: its value is NaN"]}
    Path("data.json").write_text(json.dumps(RECORDS))
    assert main(["experiment", "import", "abc", "-f", "data.json"]) == code
    printed = capsys.readouterr()
    assert printed.out == f"INFO: {told}\n"
    assert printed.err == "WARNING: Result number 2 was left out: its value is NaN.\n"


def test_a_tuner_that_learns_nothing_is_named(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    tuned_by(server, "Random")
    Path("data.json").write_text(json.dumps(RECORDS))
    assert main(["experiment", "import", "-f", "data.json"]) == 0
    assert "WARNING: The tuner Random learns nothing from results" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{}", " must hold a JSON list of objects with 'parameter' and 'value'."),
        ("[1]", ": the result number 1 of 1 is not an object with 'parameter' and 'value'."),
        (f'[{json.dumps(RECORDS[0])}, {{"parameter": {{}}}}]', ": the result number 2 of 2 has no 'value'."),
        (
            '[{"parameter": "x=1", "value": 1}]',
            ": the result number 1 of 1 has a 'parameter' that is not an object.",
        ),
    ],
)
def test_what_is_no_list_of_records(
    server: FakeServer, capsys: pytest.CaptureFixture[str], text: str, told: str
) -> None:
    tuned_by(server, "TPE")
    Path("data.json").write_text(text)
    assert main(["experiment", "import", "-f", "data.json"]) == 1
    assert capsys.readouterr().err == (
        f"ERROR: data.json{told}\n"
        "  Write results to a file: nnictl experiment export ID --filename results.json\n"
    )
    assert server.requests == []


TABLE = "x,trialJobId,reward\n0.5,abcde,0.25\n"
DOWNLOAD = '{"trials": [{"id": "abcde", "sequence": 0, "attempt": 1, "value": 0.25, "parameters.x": 0.5}]}'


@pytest.mark.parametrize(
    ("name", "text", "kind", "what"),
    [
        ("data.csv", TABLE, "csv", "a CSV file"),
        ("data", TABLE, "csv", "a CSV file"),
        ("data.json", DOWNLOAD, "nni", "a download of the dashboard"),
    ],
)
def test_tables_are_imported_by_another_option(
    server: FakeServer, capsys: pytest.CaptureFixture[str], name: str, text: str, kind: str, what: str
) -> None:
    tuned_by(server, "TPE")
    Path(name).write_text(text)
    assert main(["experiment", "import", "-f", name]) == 1
    command = f"nnictl experiment import --from {kind} {name} --to abc"
    assert capsys.readouterr().err == (
        f"ERROR: {name} is {what}, but --filename reads only JSON that 'experiment export' has written.\n"
        f"  Import it: {command}\n"
    )
    assert main(command.split()[1:]) == 0
    (sent,) = [body for method, path, body in server.requests if path == "experiments/abc/import"]
    assert sent == {"records": [{"parameter": {"x": 0.5}, "value": 0.25}]}


@pytest.mark.parametrize("value", ["2020-01-01", ".nan", "!!binary aGk="])
def test_what_no_json_can_carry(server: FakeServer, capsys: pytest.CaptureFixture[str], value: str) -> None:
    tuned_by(server, "TPE")
    Path("data.yml").write_text(f"[{{parameter: {{x: {value}}}, value: 1}}]")
    assert main(["experiment", "import", "-f", "data.yml"]) == 1
    assert capsys.readouterr().err.startswith("ERROR: data.yml:1:")
    assert server.requests == []


def test_a_refusal(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    tuned_by(server, "TPE")
    Path("data.json").write_text(json.dumps(RECORDS))
    server.refuse["experiments/abc/import"] = Refused(409, "The experiment is STOPPED: resume it first.")
    assert main(["experiment", "import", "-f", "data.json"]) == 1
    assert capsys.readouterr().err == (
        "ERROR: The experiment is STOPPED: resume it first.\n"
        "  See what the experiment does: nnictl experiment status abc\n"
    )


# ---- export -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "is_clear"),
    [
        ("-f out.xlsx", False),
        ("-f out.txt -t json", True),
        ("-f out.JSON", True),
        ("-f out.csv", True),
        ("-f out", True),
    ],
)
def test_an_ending_of_another_format_is_a_warning(
    server: FakeServer, capsys: pytest.CaptureFixture[str], words: str, is_clear: bool
) -> None:
    server.add("abc")
    assert main(["experiment", "export", *words.split()]) == 0
    told = capsys.readouterr().err
    assert not told if is_clear else told.startswith("WARNING: out.xlsx is written as JSON. ")


# ---- pareto -----------------------------------------------------------------------------------------------

PARETO = {
    "revision": 3,
    "objectives": [
        {"name": "accuracy", "mode": "maximize", "column": "value", "min": 0.1, "max": 0.9},
        {"name": "ms", "mode": "minimize", "column": "metrics.ms", "min": 1, "max": 20.5},
    ],
    "results": 12,
    "total": 2,
    "trials": [
        {"sequence": 10, "trialId": "abcde", "endedS": 1.0, "values": {"accuracy": 0.9, "ms": 20.5}},
        {"sequence": 4, "trialId": "fghij", "endedS": 0.5, "values": {"accuracy": 0.123456789, "ms": 1}},
    ],
}


def test_the_pareto_set_is_a_table(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    server.add("abc").pareto = PARETO
    assert main(["experiment", "pareto"]) == 0
    printed = capsys.readouterr()
    assert printed.out.splitlines() == [
        "TRIAL  NO.  accuracy (maximize)  ms (minimize)",
        "abcde   10                  0.9           20.5",
        "fghij    4             0.123457              1",
        "INFO: 2 of 12 trials with a result are in the Pareto set.",
    ]
    assert printed.err == ""
    assert main(["experiment", "pareto", "abc", "--json", "--filter", "ms<5"]) == 0
    assert json.loads(capsys.readouterr().out) == PARETO


def test_a_pareto_set_without_results(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    server.add("abc").pareto = {**PARETO, "trials": [], "total": 0, "results": 0}
    assert main(["experiment", "pareto", "abc"]) == 0
    assert capsys.readouterr().out == "INFO: No trial has a usable result in all objectives yet.\n"


def test_a_pareto_set_that_is_too_large(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    server.add("abc").pareto = {**PARETO, "total": 20_000}
    assert main(["experiment", "pareto", "abc"]) == 0
    assert "The table shows 2 of 20000 trials, spread evenly." in capsys.readouterr().err


def test_an_exported_csv_keeps_a_parameter_apart_from_a_metric_with_the_same_name(server: FakeServer) -> None:
    result = {"trialId": "ta", "sequence": 0, "parameterId": 0, "parameters": {"loss": 1}, "value": None}
    server.add("abc").export = [{**result, "text": '{"loss": 2, "ms": 3}', "intermediates": []}]
    assert main(["experiment", "export", "-f", "out.csv"]) == 0
    assert Path("out.csv").read_text() == "loss,trialJobId,metrics.loss,ms\n1,ta,2,3\n"
