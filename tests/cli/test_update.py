"""``nnictl update``: the requests and the messages."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from nnimgr.cli.main import main
from nnimgr.index import Index
from nnimgr.rules import facts as f
from nnimgr.store.writer import ExperimentWriter
from tests.cli.fake import FakeServer, Refused
from tests.store.test_store import StoredLife

SPACE = {"y": {"_type": "choice", "_value": [1, 2]}}


@pytest.mark.parametrize(
    ("words", "changes", "title"),
    [
        (["concurrency", "-v", "3"], {"trialConcurrency": 3}, "concurrency"),
        (["concurrency", "--value", "1000"], {"trialConcurrency": 1000}, "concurrency"),
        (["trialnum", "abc", "-v", "999999999"], {"maxTrialNumber": 999_999_999}, "trialnum"),
        (["duration", "-v", "2h"], {"maxExperimentDuration": 7200}, "duration"),
        (["duration", "-v", "1.5m"], {"maxExperimentDuration": 90}, "duration"),
        (["duration", "-v", "45"], {"maxExperimentDuration": 45}, "duration"),
        (["searchspace", "-f", "space.json"], {"searchSpace": SPACE}, "search space"),
        (["constraints", "-f", "list.yml"], {"searchSpaceConstraints": ["y < 2"]}, "constraints"),
        (["stopwhen", "-f", "rules.yml"], {"stopWhen": {"metric": 0.9}}, "stopWhen"),
        (["stopwhen", "-f", "exp.yml"], {"stopWhen": {"metric": 0.8}}, "stopWhen"),
        (["stopwhen", "-f", "empty.yml"], {"stopWhen": None}, "stopWhen"),
        (["searchspace", "-f", "whole.yml"], {"searchSpace": SPACE}, "search space"),
        (["constraints", "-f", "whole.yml"], {"searchSpaceConstraints": ["y < 3"]}, "constraints"),
        (
            ["searchspace", "-f", "space.json", "--constraints", "list.yml"],
            {"searchSpace": SPACE, "searchSpaceConstraints": ["y < 2"]},
            "search space",
        ),
    ],
)
def test_what_is_sent(
    server: FakeServer,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    changes: dict[str, Any],
    title: str,
) -> None:
    server.add("abc", searchSpace=SPACE)
    Path("space.json").write_text(json.dumps(SPACE))
    Path("list.yml").write_text("- y < 2\n")
    Path("rules.yml").write_text("metric: 0.9\n")
    Path("exp.yml").write_text("trialConcurrency: 2\nstop_when: {metric: 0.8}\n")
    Path("empty.yml").write_text("")
    whole = {"trialCommand": "true", "search_space": SPACE, "searchSpaceConstraints": ["y < 3"]}
    Path("whole.yml").write_text(json.dumps(whole))
    assert main(["update", *words]) == 0
    assert capsys.readouterr().out == f"INFO: Update {title} success!\n"
    assert server.requests[-1] == ("PATCH", "experiments/abc", changes)
    assert main(["update", *words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"id": "abc", "changes": changes}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["concurrency", "-v", "0"], "The value must be a whole number above 0, not '0'."),
        (["concurrency", "-v", "9" * 5000], "The value must be a whole number above 0, not '999"),
        (["priority", "abc", "-v", "high"], "For example: nnictl update priority abc --value 10\n"),
        (["trialnum", "-v", "ten"], "not 'ten'."),
        (["duration", "-v", "2 weeks"], "'2 weeks' is not a number with one of the units s, m, h, d"),
        (["duration", "-v", "0"], "0 is not longer than zero."),
        (["searchspace", "-f", "none.json"], "none.json: this file does not exist"),
        (["searchspace", "-f", "bad.json"], "bad.json:1:"),
        (
            ["searchspace", "-f", "exp.yml"],
            "ERROR: exp.yml is a whole configuration, whose searchSpace is in another file.\n"
            "  Name that file: nnictl update searchspace --filename space.json\n",
        ),
        (["constraints", "-f", "exp.yml"], "exp.yml is a whole configuration, and it has no"),
    ],
)
def test_what_is_not_sent(
    server: FakeServer, capsys: pytest.CaptureFixture[str], words: list[str], sentence: str
) -> None:
    server.add("abc")
    Path("bad.json").write_text("{x: [}")
    Path("exp.yml").write_text("trialCommand: 'true'\nsearchSpaceFile: space.json\n")
    assert main(["update", *words]) == 1
    assert sentence in capsys.readouterr().err
    assert server.requests == []


@pytest.mark.parametrize(
    ("verb", "text", "key", "field"),
    [
        ("constraints", 'constraints: ["x < w"]', "constraints", "searchSpaceConstraints"),
        ("searchspace", "space: {x: {_type: choice, _value: [1]}}", "space", "searchSpace"),
        ("stopwhen", "stopwhn: {metric: 0.9}", "stopwhn", "stopWhen"),
        ("tuner", "tunner: {name: TPE}", "tunner", "tuner"),
    ],
)
def test_a_misspelled_field_is_named(
    server: FakeServer, capsys: pytest.CaptureFixture[str], verb: str, text: str, key: str, field: str
) -> None:
    server.add("abc")
    Path("new.yml").write_text(text)
    assert main(["update", verb, "-f", "new.yml"]) == 1
    assert capsys.readouterr().err == (
        f"ERROR: new.yml:1:1: {key}: unknown field; did you mean '{field}'?\n"
        f"  Correct new.yml, then repeat: nnictl update {verb} -f new.yml\n"
    )
    assert server.requests == []


@pytest.mark.parametrize("name", ["space", "searchspace2"])
def test_a_parameter_may_have_a_name_like_a_field(server: FakeServer, name: str) -> None:
    server.add("abc")
    space = {name: {"_type": "choice", "_value": [1, 2]}}
    Path("space.json").write_text(json.dumps(space))
    assert main(["update", "searchspace", "-f", "space.json"]) == 0
    assert server.requests[-1] == ("PATCH", "experiments/abc", {"searchSpace": space})


LIMITS = {"trialConcurrency": 2, "maxTrialDurationS": None}
BY_TRIALS = LIMITS | {"maxTrialNumber": 3, "maxExperimentDurationS": None}
BY_TIME = LIMITS | {"maxTrialNumber": None, "maxExperimentDurationS": 3600.0}
LIVE = {"SUCCEEDED": 3, "SYS_CANCELED": 5, "RUNNING": 1}


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (
            {"status": "DRAINING", "drain": "budget", "limits": BY_TRIALS, "counts": LIVE},
            "No more trials are created: 4 trials (not counted: 5 SYS_CANCELED) exist already, and the limit "
            "is 3. 1 of them has not ended yet.",
        ),
        (
            {"status": "DONE", "limits": BY_TRIALS, "counts": {"SUCCEEDED": 3, "FAILED": 2}, "retried": 2},
            "No more trials are created: 3 trials (not counted: 2 retried) exist already, and the limit "
            "is 3.",
        ),
        (
            {"status": "DONE", "limits": BY_TRIALS, "counts": {"SUCCEEDED": 3}},
            "No more trials are created: 3 trials exist already, and the limit is 3.",
        ),
        (
            {"status": "DONE", "limits": BY_TIME, "durationS": 5399.2},
            "The experiment is still DONE: why. Raise the limit: nnictl update duration abc --value 3h",
        ),
        ({"status": "DONE", "limits": BY_TIME, "durationS": 5.0}, "The experiment is still DONE: why."),
        ({"status": "RUNNING", "limits": BY_TRIALS, "counts": LIVE}, None),
        (
            {
                "status": "DRAINING",
                "drain": "rule",
                "limits": BY_TIME,
                "counts": {"RUNNING": 2, "WAITING": 2},
            },
            "No more trials are created: why. 4 trials continue to the end.",
        ),
        (
            {"status": "STOPPED", "limits": BY_TRIALS},
            "The change takes effect when the experiment is resumed: nnictl resume abc",
        ),
    ],
)
def test_what_follows_from_a_limit(
    server: FakeServer, capsys: pytest.CaptureFixture[str], answer: dict[str, Any], sentence: str | None
) -> None:
    server.add("abc", status=answer["status"] if answer["status"] == "DONE" else "RUNNING")
    server.patch = {"reason": "why", **answer}
    assert main(["update", "trialnum", "abc", "-v", "3"]) == 0
    _, *lines = capsys.readouterr().out.splitlines()
    assert lines == ([] if sentence is None else [f"INFO: {sentence}"])


def test_what_a_change_has_ended_is_said(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    server.add("abc")
    server.patch = {"status": "DONE", "reason": "why"}
    assert main(["update", "trialnum", "abc", "-v", "3"]) == 0
    assert "INFO: This change has ended the experiment: why." in capsys.readouterr().out
    server.patch = {"status": "DRAINING", "drain": "budget", "limits": BY_TRIALS, "counts": LIVE}
    assert main(["update", "priority", "abc", "-v", "3"]) == 0
    assert "No more trials" not in capsys.readouterr().out  # the priority has not changed that
    server.patch = {"platform": "slurm"}
    assert main(["update", "priority", "abc", "-v", "3"]) == 0
    assert 'INFO: It has no effect: the platform "slurm" has a queue of its own.' in capsys.readouterr().out


def test_a_refusal_is_shown_with_its_reason(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    server.add("abc")
    server.refuse["experiments/abc"] = Refused(409, "experiment abc is only viewed: it cannot be changed")
    assert main(["update", "concurrency", "-v", "2"]) == 1
    assert capsys.readouterr().err == (
        "ERROR: Experiment abc is only viewed: it cannot be changed\nERROR: Update concurrency failed!\n"
        "  See what the experiment does: nnictl experiment status abc\n"
    )


def test_a_refused_search_space_is_shown_with_its_line(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.add("abc")
    Path("space.yml").write_text("y: {_type: choice}\nx: {_type: uniform, _value: [1, 0]}\n")
    fault = {"field": "searchSpace.x._value", "message": "the server's words"}
    server.refuse["experiments/abc"] = Refused(422, "The configuration is wrong.", problems=[fault])
    assert main(["update", "searchspace", "-f", "space.yml"]) == 1
    assert capsys.readouterr().err == (
        'ERROR: space.yml:1:1: y: has no "_value"\n'
        "ERROR: space.yml:2:21: x._value: the lower bound 1 must be less than the upper bound 0\n"
        "ERROR: Update search space failed!\n"
        "  Correct space.yml, then repeat: nnictl update searchspace -f space.yml\n"
    )


def test_a_refused_search_space_of_a_whole_configuration_is_shown_with_its_line(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.add("abc")
    Path("exp.yml").write_text("trialCommand: 'true'\nsearchSpace:\n  y: {_type: choice}\n")
    fault = {"field": "searchSpace.y", "message": "the server's words"}
    server.refuse["experiments/abc"] = Refused(422, "The configuration is wrong.", problems=[fault])
    assert main(["update", "searchspace", "-f", "exp.yml"]) == 1
    assert capsys.readouterr().err.startswith('ERROR: exp.yml:3:3: searchSpace.y: has no "_value"\n')


def test_a_parameter_may_have_the_name_of_a_field(server: FakeServer) -> None:
    server.add("abc")
    space = {"searchSpace": SPACE["y"], "tuner": SPACE["y"]}
    Path("space.json").write_text(json.dumps(space))
    assert main(["update", "searchspace", "-f", "space.json"]) == 0
    assert server.requests[-1] == ("PATCH", "experiments/abc", {"searchSpace": space})


def test_a_refused_constraint_is_shown_with_its_line(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.add("abc")
    Path("space.json").write_text('{"y": {"_type": "choice", "_value": [1]}}')
    Path("rules.yml").write_text("- y < 2\n- yy < 2\n")
    field = "searchSpaceConstraints[1]"
    fault = {"field": field, "message": "the search space has no parameter yy", "nearest": "y"}
    server.refuse["experiments/abc"] = Refused(422, "The configuration is wrong.", problems=[fault])
    told = f"ERROR: rules.yml:2:3: {field}: the search space has no parameter yy; did you mean 'y'?\n"
    for command in (["constraints", "-f"], ["searchspace", "-f", "space.json", "--constraints"]):
        assert main(["update", *command, "rules.yml"]) == 1
        printed = capsys.readouterr().err
        assert printed.startswith(told) and "\n  Correct rules.yml, then repeat: nnictl update" in printed
    assert main(["update", "searchspace", "-f", "space.json"]) == 1
    assert "parameter yy; --constraints FILE replaces the constraints, too" in capsys.readouterr().err


def test_a_refused_rule_is_shown_with_its_line(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.add("abc")
    Path("exp.yml").write_text("trialConcurrency: 2\nstopWhen:\n  plateau: {trials: 0}\n")
    fault = {"field": "stopWhen.plateau.trials", "message": "must be greater than 0, not 0"}
    server.refuse["experiments/abc"] = Refused(422, "The configuration is wrong.", problems=[fault])
    assert main(["update", "stopwhen", "-f", "exp.yml"]) == 1
    assert capsys.readouterr().err.startswith(
        "ERROR: exp.yml:3:13: stopWhen.plateau.trials: must be greater than 0, not 0\n"
        "ERROR: Update stopWhen failed!\n"
    )


def test_which_experiment_is_meant(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["update", "concurrency", "-v", "2"]) == 1
    assert "There is no experiment running." in capsys.readouterr().err
    server.add("abc")
    server.add("def")
    assert main(["update", "concurrency", "-v", "2"]) == 1
    assert "There are multiple experiments" in capsys.readouterr().err
    assert main(["update", "concurrency", "def", "-v", "2"]) == 0
    assert server.requests[-1][1] == "experiments/def"


@pytest.mark.parametrize(
    ("slots", "sentence"),
    [
        (1, "The next trial starts when none of them runs any more."),
        (3, "The next trial starts when fewer than 3 of them run."),
    ],
)
def test_fewer_slots_than_running_trials(
    server: FakeServer, capsys: pytest.CaptureFixture[str], slots: int, sentence: str
) -> None:
    server.add("abc", counts={"RUNNING": 3, "UNKNOWN": 1, "WAITING": 2})
    server.patch = {"limits": LIMITS | {"trialConcurrency": slots}}
    assert main(["update", "concurrency", "-v", str(slots)]) == 0
    assert capsys.readouterr().out == (
        f"INFO: Update concurrency success!\nINFO: 4 trials run, and all of them continue. {sentence}\n"
    )


def test_as_many_slots_as_running_trials(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    server.add("abc", counts={"RUNNING": 2})
    assert main(["update", "concurrency", "-v", "2"]) == 0
    assert capsys.readouterr().out == "INFO: Update concurrency success!\n"


OTHER = {"name": "TPE", "classArgs": {"seed": 3, "key": "${file:key.txt}"}, "codeDirectory": "code"}


@pytest.mark.parametrize("content", [OTHER, {"Tuner": OTHER, "trialConcurrency": 7}])
def test_another_tuner(
    server: FakeServer, capsys: pytest.CaptureFixture[str], content: dict[str, Any]
) -> None:
    """The file's tuner section, or all of it, is sent. Paths become absolute, and secrets stay references."""
    Path("deep").mkdir()
    Path("deep/tuner.yml").write_text(json.dumps(content))
    profile = server.add("abc").profile
    ended = {"SUCCEEDED": 12, "FAILED": 3, "EARLY_STOPPED": 2, "USER_CANCELED": 4, "SYS_CANCELED": 5}
    profile.update(counts={**ended, "RUNNING": 3, "WAITING": 1}, retried=2)
    profile["config"]["tuner"] = {"name": "Random"}
    server.patch = {"config": {**profile["config"], "tuner": {"className": "mine.Mine"}}}
    assert main(["update", "tuner", "-f", "deep/tuner.yml"]) == 0
    assert capsys.readouterr().out == (
        "INFO: Update tuner success!\n"
        "INFO: The tuner is mine.Mine instead of Random from now on. The new tuner gets the whole history: "
        "19 finished trials (12 SUCCEEDED, 2 EARLY_STOPPED, 1 FAILED, 4 USER_CANCELED). "
        "4 waiting or running trials continue.\n"
    )
    here = Path("deep").absolute()
    sent = {**OTHER, "codeDirectory": str(here / "code")}
    sent["classArgs"] = {"seed": 3, "key": f"${{file:{here}/key.txt}}"}
    assert server.requests[-1] == ("PATCH", "experiments/abc", {"tuner": sent})


@pytest.mark.parametrize(
    ("records", "history"),
    [("[{}]", "trials, and 1 imported result."), ("[{}, {}]", "trials, and 2 imported results.")],
)
async def test_another_tuner_gets_imported_results(
    server: FakeServer, capsys: pytest.CaptureFixture[str], tmp_path: Path, records: str, history: str
) -> None:
    profile = server.add("abc").profile
    profile["config"]["tuner"] = {"name": "Random"}
    Index(server.home).update("abc", log_dir=tmp_path)
    writer = ExperimentWriter(tmp_path / "abc")
    await writer.open()
    life = StoredLife()
    life.take(f.DataImported(records=records))
    await life.store(writer)
    await writer.close()
    server.patch = {"config": {**profile["config"], "tuner": {"name": "TPE"}}}
    file = tmp_path / "tuner.yml"
    await asyncio.to_thread(file.write_text, "name: TPE")
    assert await asyncio.to_thread(main, ["update", "tuner", "-f", str(file)]) == 0
    printed = capsys.readouterr().out
    assert printed.endswith(f"The new tuner gets the whole history: 0 finished {history}\n")


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        ("STOPPED", "The tuner will be TPE instead of Random when the experiment is resumed."),
        (
            "DONE",
            "The tuner is TPE instead of Random, but the experiment is done: all 3 trials were created.",
        ),
    ],
)
def test_another_tuner_for_an_experiment_that_does_not_run(
    server: FakeServer, capsys: pytest.CaptureFixture[str], status: str, sentence: str
) -> None:
    profile = server.add("abc").profile
    profile["config"]["tuner"] = {"name": "Random"}
    changed = {**profile["config"], "tuner": {"name": "TPE"}}
    server.patch = {"config": changed, "status": status, "reason": "all 3 trials were created"}
    Path("tuner.yml").write_text("name: TPE")
    assert main(["update", "tuner", "abc", "-f", "tuner.yml"]) == 0
    assert sentence in capsys.readouterr().out
    server.patch = {}
    assert main(["update", "tuner", "abc", "-f", "tuner.yml", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["changes"] == {"tuner": {"name": "TPE"}}
    assert main(["update", "tuner", "abc", "-f", "tuner.yml"]) == 0
    assert "The tuner was TPE with these arguments already: nothing has changed." in capsys.readouterr().out


def test_a_refused_tuner_is_shown_with_its_line(
    server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.add("abc")
    Path("exp.yml").write_text("tuner:\n  name: TPE\n  classArgs:\n    gama: 1\n")
    fault = {"field": "tuner.classArgs.gama", "message": "TPE takes no argument 'gama'"}
    server.refuse["experiments/abc"] = Refused(422, "The configuration is wrong.", problems=[fault])
    assert main(["update", "tuner", "-f", "exp.yml"]) == 1
    assert capsys.readouterr().err == (
        "ERROR: exp.yml:4:5: tuner.classArgs.gama: TPE takes no argument 'gama'\n"
        "ERROR: Update tuner failed!\n  Correct exp.yml, then repeat: nnictl update tuner -f exp.yml\n"
    )
    Path("exp.yml").write_text("trialConcurrency: 2\n")
    assert main(["update", "tuner", "-f", "exp.yml"]) == 1
    assert "exp.yml:1:1: there is no tuner here" in capsys.readouterr().err


def test_other_parameters_are_named(server: FakeServer, capsys: pytest.CaptureFixture[str]) -> None:
    server.add("abc", searchSpace={"x": {}, "y": {}})
    Path("space.json").write_text(json.dumps({"x": {}, "z": {}, "w": {}}))
    assert main(["update", "searchspace", "-f", "space.json"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        "INFO: Parameters added: z, w; dropped: y. Trials that exist keep their parameters. "
        "New trials fail if their code asks for y."
    ]
    Path("space.json").write_text(json.dumps({"v": {}}))
    assert main(["update", "searchspace", "-f", "space.json"]) == 0
    assert "New trials fail if their code asks for one of these." in capsys.readouterr().out
