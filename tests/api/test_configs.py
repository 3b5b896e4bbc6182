"""Configurations as texts: problems with their positions, the plan of an experiment, and its creation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.api.lab import Lab

VALIDATE = "/api/v1/validate"
CREATE = "/api/v1/experiments/from-text"
TEXT = """\
experimentName: mine
searchSpaceFile: space.json
trialCommand: python3 trial.py
trialCodeDirectory: code
trialConcurrency: 2
maxTrialNumber: 10
maxExperimentDuration: 1h
tuner:
  name: TPE
  classArgs: {optimize_mode: minimize}
trainingService:
  platform: local
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Create the files that the text refers to."""
    folder = tmp_path / "project"
    (folder / "code").mkdir(parents=True)
    (folder / "code" / "trial.py").write_text("pass\n")
    (folder / "space.json").write_text(
        '{"x": {"_type": "choice", "_value": [1, 2]}, "y": {"_type": "randint", "_value": [0, 5]}}'
    )
    return folder


async def validated(lab: Lab, text: str, cwd: Path | str | None) -> dict[str, Any]:
    body = {"text": text} if cwd is None else {"text": text, "cwd": str(cwd)}
    answer = await lab.client.post(VALIDATE, json=body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def test_what_would_start(lab: Lab, folder: Path) -> None:
    found = await validated(lab, TEXT, folder)
    assert found["problems"] == []
    plan = found["plan"]
    assert (plan["name"], plan["platform"], plan["tuner"], plan["assessor"]) == ("mine", "local", "TPE", None)
    assert plan["optimizeMode"] == "minimize"
    assert plan["limits"]["maxTrialNumber"] == 10 and plan["limits"]["maxExperimentDurationS"] == 3600
    assert plan["parameters"] == [{"name": "x", "type": "choice"}, {"name": "y", "type": "randint"}]
    assert plan["parameterSets"] == 10 and plan["feasibleShare"] is None
    assert plan["experimentWorkingDirectory"] == str(lab.manager.home.path)
    (service,) = plan["services"]
    assert service["trialCodeDirectory"] == str(folder / "code")
    assert (service["codeFiles"], service["machines"], service["trialGpuNumber"]) == (None, [], None)
    assert not lab.manager.created


async def test_the_code_that_other_machines_get(lab: Lab, folder: Path) -> None:
    text = TEXT.replace(
        "platform: local", "platform: remote\n  machineList: [{host: gpu1, user: me, password: secret-1}]"
    ).replace("trialConcurrency: 2", "trialConcurrency: 2\ntrialGpuNumber: 1")
    (folder / "code" / ".nniignore").write_text("big\n")
    (folder / "code" / "big").write_bytes(b"x" * 1000)
    answer = await lab.client.post(VALIDATE, json={"text": text, "cwd": str(folder)})
    assert "secret-1" not in answer.text
    (service,) = answer.json()["plan"]["services"]
    assert service["machines"] == ["me@gpu1"]
    assert (service["codeFiles"], service["codeSize"], service["trialGpuNumber"]) == (2, 9, 1)


async def test_every_problem_has_its_place(lab: Lab, folder: Path) -> None:
    text = TEXT.replace("trialConcurrency: 2", "trialConcurency: 2").replace(
        "maxTrialNumber: 10", "maxTrialNumber: 0"
    )
    found = await validated(lab, text.replace("name: TPE", "name: TPX"), folder)
    assert found["plan"] is None
    places = {problem["field"]: problem for problem in found["problems"]}
    assert [(p["line"], p["column"], p["file"]) for p in found["problems"]] == [
        (5, 1, None),
        (6, 1, None),
        (9, 3, None),
    ]
    assert places["trialConcurency"]["nearest"] == "trialConcurrency"
    assert places["maxTrialNumber"]["message"] == "must be greater than 0, not 0"
    assert "tuner.name" in places


async def test_a_problem_in_the_search_space_is_placed_in_its_file(lab: Lab, folder: Path) -> None:
    (folder / "space.json").write_text('{\n "x": {"_type": "choise", "_value": [1, 2]}}')
    (problem,) = (await validated(lab, TEXT, folder))["problems"]
    assert (problem["file"], problem["line"]) == (str(folder / "space.json"), 2)


@pytest.mark.parametrize(
    ("text", "line", "part"),
    [
        ("a: [1, 2\nb: 3\n", 2, "not YAML"),
        ("- 1\n- 2\n", 1, "must hold a mapping"),
        ("", None, "must hold a mapping"),
        ("a: 1\na: 2\n", 2, "given twice"),
        ("maxTrialNum: -1\ntrainingServicePlatform: local\ntrial: {}\n", 1, "must be greater than 0"),
        (TEXT + "useAnnotation: true\n", 13, "annotations in the trial's source are not supported"),
        (TEXT.replace("space.json", "none.json"), 2, "none.json does not exist"),
        (TEXT.replace("python3 trial.py", "run ${env:HOME}"), 3, "references are not replaced"),
        (TEXT.replace("mine", '"a\\uD800b"'), None, "Unicode"),
    ],
)
async def test_texts_that_cannot_be_used(
    lab: Lab, folder: Path, text: str, line: int | None, part: str
) -> None:
    found = await validated(lab, text, folder)
    assert found["plan"] is None
    assert [line] == [problem["line"] for problem in found["problems"] if part in problem["message"]]


async def test_json_with_half_a_character(lab: Lab, folder: Path) -> None:
    text = (
        '{"searchSpace": {"x": {"_type": "choice", "_value": ["\\ud800"]}}, "trialCommand": "true", '
        '"trialConcurrency": 1, "tuner": {"name": "Random"}, "trainingService": {"platform": "local"}}'
    )
    (problem,) = (await validated(lab, text, folder))["problems"]
    assert "valid Unicode" in problem["message"]


async def test_where_relative_paths_begin(lab: Lab, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (problem,) = (await validated(lab, TEXT, folder / "none"))["problems"]
    assert (problem["field"], problem["message"]) == ("cwd", f"the directory {folder}/none does not exist")
    (problem,) = (await validated(lab, TEXT, "code"))["problems"]
    assert problem["field"] == "cwd"
    (problem,) = (await validated(lab, TEXT, "/a\0b"))["problems"]
    assert problem["field"] == "cwd" and "NUL" in problem["message"]
    monkeypatch.setenv("HOME", str(folder))
    assert (await validated(lab, TEXT, None))["problems"] == []


async def test_create(lab: Lab, folder: Path) -> None:
    answer = await lab.client.post(CREATE, json={"text": TEXT, "cwd": str(folder)})
    assert (answer.status_code, answer.json()) == (201, {"id": "fresh"})
    (new,) = lab.manager.created
    assert new.config["trialCodeDirectory"] == str(folder / "code")
    assert new.search_space["y"] == {"_type": "randint", "_value": [0, 5]}
    assert (new.environ, new.cwd, new.python) == (None, str(folder), None)
    assert "searchSpace" not in new.config


async def test_nothing_is_created_of_a_bad_text(lab: Lab, folder: Path) -> None:
    answer = await lab.client.post(CREATE, json={"text": "tuner: 1\n", "cwd": str(folder)})
    assert answer.status_code == 400
    places = [(problem["field"], problem.get("line")) for problem in answer.json()["error"]["problems"]]
    assert ("tuner", 1) in places
    assert not lab.manager.created


async def test_a_text_that_is_too_long(lab: Lab) -> None:
    answer = await lab.client.post(VALIDATE, json={"text": "#" * ((1 << 18) + 1)})
    assert answer.status_code == 422


async def test_more_parameter_sets_than_any_float(lab: Lab, folder: Path) -> None:
    spec = '{"_type": "choice", "_value": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]}'
    space = ", ".join(f'"p{number}": {spec}' for number in range(400))
    (folder / "space.json").write_text(f"{{{space}}}")
    found = await validated(lab, TEXT, folder)
    assert (found["problems"], found["plan"]["parameterSets"]) == ([], None)


async def test_constraints(lab: Lab, folder: Path) -> None:
    found = await validated(lab, TEXT + "searchSpaceConstraints: [y < 3 or x == 2]\n", folder)
    assert 0.75 < found["plan"]["feasibleShare"] < 0.85
    found = await validated(lab, TEXT + "searchSpaceConstraints:\n  - y < 3\n  - z < 3\n", folder)
    (problem,) = found["problems"]
    assert (problem["field"], problem["line"], problem["column"]) == ("searchSpaceConstraints[1]", 15, 5)
    assert problem["message"].startswith("the search space has no parameter z")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "mapping"),
        ("a: [", "expected"),
        ("- 1\n- 2\n", "mapping"),
        ("tuner: {name: TPE}\ntuner: {name: Random}\n", "twice"),
        ("!!python/object:os.system {}", ""),
        ("&a [*a]", ""),
        ("\x00", ""),
        ("? [1, 2]\n: 3\n", ""),
        ("[" * 2000, ""),
    ],
)
async def test_a_text_that_is_no_configuration_is_refused(
    lab: Lab, folder: Path, text: str, said: str
) -> None:
    answer = await lab.client.post(CREATE, json={"text": text, "cwd": str(folder)})
    assert answer.status_code == 400, answer.text
    problems = answer.json()["error"]["problems"]
    assert problems and said in str(problems), problems
    found = await validated(lab, text, folder)
    assert found["problems"] and found["plan"] is None
    assert not lab.manager.created


@pytest.mark.parametrize("text", ["", "a: [", "host: a\nhost: b\n", "3", "[" * 2000])
async def test_a_text_that_is_no_machine_is_refused(lab: Lab, text: str) -> None:
    answer = await lab.client.post("/api/v1/experiments/exp/machines", json={"text": text})
    assert answer.status_code in (400, 409), answer.text


async def test_a_change_of_no_field_is_refused(lab: Lab) -> None:
    answer = await lab.client.patch("/api/v1/experiments/exp", json={"": 1})
    assert answer.status_code == 400, answer.text
    (problem,) = answer.json()["error"]["problems"]
    assert (problem["field"], problem["message"]) == ("", "unknown field")


CHANGE = "/api/v1/experiments/exp/change-from-text"


async def test_fields_of_a_running_experiment_are_changed_by_texts(lab: Lab) -> None:
    body = {
        "searchSpace": "x: {_type: randint, _value: [0, 5]}\ny: {_type: choice, _value: [1, 2]}\n",
        "searchSpaceConstraints": "- x > y\n",
        "tuner": "name: TPE\nclassArgs: {optimize_mode: maximize}\n",
    }
    answer = await lab.client.post(CHANGE, json=body)
    assert (answer.status_code, answer.json()) == (200, {"problems": []})
    profile = (await lab.client.get("/api/v1/experiments/exp")).json()
    assert profile["searchSpace"]["x"] == {"_type": "randint", "_value": [0, 5]}
    assert profile["config"]["searchSpaceConstraints"] == ["x > y"]
    assert profile["config"]["tuner"]["name"] == "TPE"
    answer = await lab.client.post(CHANGE, json={"searchSpaceConstraints": ""})
    assert answer.json() == {"problems": []}
    profile = (await lab.client.get("/api/v1/experiments/exp")).json()
    assert "searchSpaceConstraints" not in profile["config"]


@pytest.mark.parametrize(
    ("body", "field", "line"),
    [
        ({"searchSpace": "x:\n  _type: choice\n  _value: []\n"}, "searchSpace.x._value", 3),
        ({"searchSpace": "x: [\n"}, "searchSpace", 2),
        ({"searchSpace": "- x\n"}, "searchSpace", 1),
        ({"searchSpaceConstraints": "# why\n- nothing > 1\n"}, "searchSpaceConstraints[0]", 2),
        ({"tuner": "name: TPE\nclassArgs: {optimize_mode: up}\n"}, "tuner.classArgs.optimize_mode", 2),
        ({"tuner": "tuner:\n  name: Random\n  classArgs:\n    seed: x\n"}, "tuner.classArgs.seed", 4),
    ],
)
async def test_errors_in_the_texts_of_changes_have_their_lines(
    lab: Lab, body: dict[str, str], field: str, line: int
) -> None:
    before = (await lab.client.get("/api/v1/experiments/exp")).json()
    answer = await lab.client.post(CHANGE, json=body)
    assert answer.status_code == 200, answer.text
    problems = answer.json()["problems"]
    assert [(each["field"], each["line"]) for each in problems] == [(field, line)]
    assert (await lab.client.get("/api/v1/experiments/exp")).json()["config"] == before["config"]
