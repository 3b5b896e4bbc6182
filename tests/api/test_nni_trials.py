"""NNI's routes about trials, metrics and files: the exact answers of NNI 3.0."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from nnimgr.rules import facts as f
from tests.api.lab import Lab
from tests.api.stored_life import several_sets
from tests.api.test_nni_experiment import BOTH, NNI, T0_MS, headers_of, is_empty, says
from training_services.frames import number_in

DICT = '{"default": 0.36, "other": 3, "\\u00e9": 1e-07}'


@pytest.fixture
async def busy(lab: Lab) -> Lab:
    """Trial 1 reports before trial 0. Trial 0 succeeds with two results, 1 fails, 2 runs, 3 waits."""
    life = lab.life

    def report(sequence: int, position: int, text: str, *, number: int = 0, kind: str = "FINAL") -> None:
        value = number_in(json.loads(text))
        life.take(f.MetricReported(life.job(sequence), position, kind, number, str(sequence), value, text))

    life.start(0)
    life.start(1)
    report(1, 0, "NaN", kind="PERIODICAL")
    report(0, 0, "0.5", kind="PERIODICAL")
    report(0, 1, DICT, number=1, kind="PERIODICAL")
    report(0, 2, "1e-05")
    report(0, 3, '"oops"')
    life.end(0)
    report(1, 1, "1")
    life.end(1, 3)
    life.start(2)
    await lab.runner.commit()
    return lab


def metric(lab: Lab, sequence: int, kind: str, number: int, data: str) -> str:
    return (
        f'{{"timestamp":{T0_MS},"trialJobId":"{lab.life.trial(sequence)}","parameterId":"{sequence}",'
        f'"type":"{kind}","sequence":{number},"data":{data}}}'
    )


def all_metrics(lab: Lab) -> dict[str, str]:
    return {
        "1 nan": metric(lab, 1, "PERIODICAL", 0, r'"\"NaN\""'),
        "0 first": metric(lab, 0, "PERIODICAL", 0, r'"\"0.5\""'),
        "0 dict": metric(
            lab,
            0,
            "PERIODICAL",
            1,
            r'"\"{\\\"default\\\": 0.36, \\\"other\\\": 3, \\\"\\\\u00e9\\\": 1e-07}\""',
        ),
        "0 final": metric(lab, 0, "FINAL", 0, r'"\"1e-05\""'),
        "0 again": metric(lab, 0, "FINAL", 0, r'"\"\\\"oops\\\"\""'),
        "1 final": metric(lab, 1, "FINAL", 0, r'"\"1\""'),
    }


def trial_text(lab: Lab, sequence: int, status: str, rest: str, *, message: str = "") -> str:
    life = lab.life
    record = (
        f'{{"parameter_id":{sequence},"parameter_source":"algorithm",'
        '"parameters":{"x":1},"parameter_index":0}'
    )
    said = f',"message":{json.dumps(message)}' if message else ""
    return (
        f'{{"trialJobId":"{life.trial(sequence)}","status":"{status}",'
        f'"hyperParameters":[{json.dumps(record)}],"startTime":{T0_MS},'
        f'"logPath":"{lab.manager.folder}/trials/{life.trial(sequence)}","sequenceId":{sequence}'
        f'{said},"envId":"local-env"{rest}}}'
    )


def all_trials(lab: Lab) -> list[str]:
    final = all_metrics(lab)["0 final"]
    failed = f'"{lab.manager.folder}/trials/{lab.life.trial(1)}/stderr"'
    return [
        trial_text(
            lab,
            0,
            "SUCCEEDED",
            f',"endTime":{T0_MS},"finalMetricData":[{final}]',
            message=(
                'the trial reported another final result, "oops", which is not used: '
                "the first one, 1e-05, counts"
            ),
        ),
        trial_text(
            lab,
            1,
            "FAILED",
            f',"endTime":{T0_MS},"stderrPath":{failed}',
            message=(
                "exited with code 3; intermediate result number 1 is NaN, which is not a finite number: "
                "charts and built-in algorithms cannot use it; pass a number to "
                "nni.report_intermediate_result()"
            ),
        ),
        trial_text(lab, 2, "RUNNING", ""),
    ]


@BOTH
async def test_trials(busy: Lab, base: str) -> None:
    answer = await busy.client.get(f"{base}/trial-jobs")
    assert headers_of(answer) == "application/json; charset=utf-8"
    *texts, waiting = json.loads(answer.text)
    assert answer.text.startswith("[" + ",".join(all_trials(busy)) + ",{")
    assert len(texts) == 3 and waiting["status"] == "WAITING" and waiting["startTime"] == T0_MS
    assert "endTime" not in waiting and waiting["message"]


@pytest.mark.parametrize(
    ("status", "sequences"),
    [("SUCCEEDED", [0]), ("FAILED", [1]), ("RUNNING", [2]), ("WAITING", [3]), ("NOPE", []), ("PAUSED", [])],
)
async def test_trials_of_a_status(busy: Lab, status: str, sequences: list[int]) -> None:
    found = (await busy.client.get(f"{NNI}/trial-jobs?status={status}")).json()
    assert [trial["sequenceId"] for trial in found] == sequences


async def test_long_lists(busy: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = (await busy.client.get(f"{NNI}/trial-jobs")).text
    exported = (await busy.client.get(f"{NNI}/export-data")).text
    monkeypatch.setattr("nnimgr.api.nni.trial_routes._PAGE", 1)
    monkeypatch.setattr("nnimgr.api.nni.experiment_routes._PAGE", 1)
    assert (await busy.client.get(f"{NNI}/trial-jobs")).text == whole
    assert (await busy.client.get(f"{NNI}/trial-jobs?status=SUCCEEDED")).text == f"[{all_trials(busy)[0]}]"
    assert (await busy.client.get(f"{NNI}/export-data")).text == exported


@BOTH
async def test_a_trial(busy: Lab, base: str) -> None:
    for sequence, text in enumerate(all_trials(busy)):
        assert (await busy.client.get(f"{base}/trial-jobs/{busy.life.trial(sequence)}")).text == text
    assert says(await busy.client.get(f"{base}/trial-jobs/zzzzz"), 404) == "Trial job not found"


@BOTH
async def test_a_trial_with_several_parameter_sets(lab: Lab, base: str) -> None:
    several_sets(lab.life)
    await lab.runner.commit()
    path = f"{base}/trial-jobs/{lab.life.trial(2)}"
    text = (await lab.client.get(path)).text
    assert (await lab.client.get(f"{base}/trial-jobs?status=SUCCEEDED")).text == f"[{text}]"
    shown = json.loads(text)
    assert [json.loads(record) for record in shown["hyperParameters"]] == [
        {
            "parameter_id": parameter_id,
            "parameter_source": "algorithm",
            "parameters": {"x": index + 1},
            "parameter_index": index,
        }
        for index, parameter_id in enumerate([2, 3, 4])
    ]
    finals = [(metric["parameterId"], metric["data"]) for metric in shown["finalMetricData"]]
    assert finals == [("2", '"0.75"'), ("3", '"0.5"')]
    exported = [
        f'{{"parameter":{{"x":{x}}},"value":"{value}","trialJobId":"{lab.life.trial(2)}"}}'
        for x, value in ((1, "0.75"), (2, "0.5"))
    ]
    assert (await lab.client.get(f"{base}/export-data")).text == "[" + ",".join(exported) + "]"


async def test_a_trial_that_is_run_again_is_a_resumed_one_to_clients(busy: Lab) -> None:
    await busy.client.post("/api/v1/experiments/exp/rerun")
    again = busy.life.trial(busy.life.state.next_sequence - 1)
    (record,) = (await busy.client.get(f"{NNI}/trial-jobs/{again}")).json()["hyperParameters"]
    assert json.loads(record)["parameter_source"] == "resumed"


@pytest.mark.parametrize("parameters", [{"x": 1.0, "deep": {"é": [1e-7]}}, [1, 2], "text"])
async def test_add(lab: Lab, parameters: Any) -> None:
    answer = await lab.client.post(f"{NNI}/trial-jobs", json=parameters)
    assert (answer.status_code, answer.text) == (200, '{"sequenceId":2}')
    (record,) = (await lab.client.get(f"{NNI}/trial-jobs/{lab.life.trial(2)}")).json()["hyperParameters"]
    assert json.loads(record) == {
        "parameter_id": None,
        "parameter_source": "customized",
        "parameters": parameters,
        "parameter_index": 0,
    }


@pytest.mark.parametrize(
    "text", [r'{"x": "\ud800"}', r'{"\udfff": 1}', r'"\ud83d"', '{"x": 1e999', "[" * 100_000]
)
async def test_add_what_is_no_parameter_set(lab: Lab, text: str) -> None:
    answer = await lab.client.post(f"{NNI}/trial-jobs", content=text)
    assert answer.status_code == 400
    assert len((await lab.client.get(f"{NNI}/trial-jobs")).json()) == 2


async def test_add_too_many(lab: Lab) -> None:
    lab.life.take(f.ConfigChanged(changes={}, limits=f.Limits(trial_concurrency=2, max_trial_number=2)))
    await lab.runner.commit()
    answer = await lab.client.post(f"{NNI}/trial-jobs", json={"x": 1})
    assert (answer.status_code, answer.text) == (500, '{"error":"reach maxTrialNum"}')


async def test_a_trial_that_a_user_stops_is_canceled_at_once(busy: Lab) -> None:
    trial = busy.life.trial(2)
    assert is_empty(await busy.client.delete(f"{NNI}/trial-jobs/{trial}"))
    shown = (await busy.client.get(f"{NNI}/trial-jobs/{trial}")).json()
    assert shown["status"] == "USER_CANCELED" and "endTime" not in shown
    for status, sequences in (("USER_CANCELED", [2]), ("RUNNING", [])):
        found = (await busy.client.get(f"{NNI}/trial-jobs?status={status}")).json()
        assert [found["sequenceId"] for found in found] == sequences
    busy.life.end(2, None, reason=f.EndReason.STOPPED)
    await busy.runner.commit()
    shown = (await busy.client.get(f"{NNI}/trial-jobs/{trial}")).json()
    assert (shown["status"], shown["endTime"]) == ("USER_CANCELED", T0_MS)


async def test_a_stopped_trial_never_runs_again_while_its_end_is_being_stored(busy: Lab) -> None:
    trial = busy.life.trial(2)
    assert is_empty(await busy.client.delete(f"{NNI}/trial-jobs/{trial}"))
    busy.life.end(2, None, reason=f.EndReason.STOPPED)
    busy.runner.waiting.clear()
    asking = asyncio.create_task(busy.client.get(f"{NNI}/trial-jobs/{trial}"))
    await busy.runner.waiting.wait()
    await busy.runner.commit()
    assert (await asking).json()["status"] == "USER_CANCELED"


async def test_stopping_what_has_ended_or_never_was(busy: Lab) -> None:
    assert is_empty(await busy.client.delete(f"{NNI}/trial-jobs/{busy.life.trial(0)}"))
    assert (await busy.client.get(f"{NNI}/trial-jobs/{busy.life.trial(0)}")).text == all_trials(busy)[0]
    assert says(await busy.client.delete(f"{NNI}/trial-jobs/zzzzz"), 404) == "Trial job not found"


@BOTH
@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("metric-data", ["1 nan", "0 first", "0 dict", "0 final", "0 again", "1 final"]),
        ("metric-data?type=PERIODICAL", ["1 nan", "0 first", "0 dict"]),
        ("metric-data?type=FINAL", ["0 final", "0 again", "1 final"]),
        ("metric-data?type=NOPE", []),
        ("metric-data/TRIAL0", ["0 first", "0 dict", "0 final", "0 again"]),
        ("metric-data/TRIAL0?type=FINAL", ["0 final", "0 again"]),
        ("metric-data/zzzzz", []),
        ("metric-data-range/0/1", ["1 nan", "0 first", "0 dict", "0 final", "0 again", "1 final"]),
        ("metric-data-range/1/1", ["1 nan", "1 final"]),
        ("metric-data-range/0.5/1e3", ["1 nan", "1 final"]),
        ("metric-data-range/0x1/1", ["1 nan", "1 final"]),
        ("metric-data-range/1/Infinity", ["1 nan", "1 final"]),
        ("metric-data-range/%20/1", ["1 nan", "0 first", "0 dict", "0 final", "0 again", "1 final"]),
        ("metric-data-range/0/inf", []),
        ("metric-data-range/2/1", []),
        ("metric-data-range/a/3", []),
        ("metric-data-range/nan/3", []),
        ("metric-data-latest", ["0 final", "0 again", "1 final", "1 nan", "0 dict"]),
        ("metric-data-latest/", ["0 final", "0 again", "1 final", "1 nan", "0 dict"]),
    ],
)
async def test_metrics(busy: Lab, base: str, path: str, names: list[str]) -> None:
    answer = await busy.client.get(f"{base}/{path.replace('TRIAL0', busy.life.trial(0))}")
    assert headers_of(answer) == "application/json; charset=utf-8"
    known = all_metrics(busy)
    assert answer.text == "[" + ",".join(known[name] for name in names) + "]"


@pytest.mark.parametrize(
    ("parameter_id", "shown"), [(None, "null"), ("7", '"7"'), ('"a\\u00e9"', '"aé"'), ("1.5", '"1.5"')]
)
async def test_ids_of_parameters(lab: Lab, parameter_id: str | None, shown: str) -> None:
    lab.life.start(0)
    lab.life.take(f.MetricReported(lab.life.job(0), 0, "FINAL", 0, parameter_id, 1.0, "1.0"))
    await lab.runner.commit()
    assert f'"parameterId":{shown},' in (await lab.client.get(f"{NNI}/metric-data")).text


@BOTH
async def test_export(busy: Lab, base: str) -> None:
    answer = await busy.client.get(f"{base}/export-data")
    assert answer.text == (f'[{{"parameter":{{"x":1}},"value":"1e-05","trialJobId":"{busy.life.trial(0)}"}}]')


async def test_nothing_to_export(lab: Lab) -> None:
    assert (await lab.client.get(f"{NNI}/export-data")).text == "[]"


# ---- files


@pytest.mark.parametrize("name", ["stdout", "stderr", "trial.log"])
async def test_logs(busy: Lab, name: str) -> None:
    trial = busy.life.trial(0)
    busy.service.logs[(busy.life.job(0), name)] = b"one line\nand the other\n"
    answer = await busy.client.get(f"{NNI}/trial-file/{trial}/{name}")
    assert (answer.status_code, answer.text) == (200, "one line\nand the other\n")
    assert headers_of(answer) == "text/plain; charset=utf-8"
    busy.service.logs[(busy.life.job(0), name)] = b""
    answer = await busy.client.get(f"{NNI}/trial-file/{trial}/{name}")
    assert (answer.text, headers_of(answer)) == (f"{name} is empty.", "text/plain; charset=utf-8")
    busy.service.logs[(busy.life.job(0), name)] = b"one\n"
    answer = await busy.client.head(f"{NNI}/trial-file/{trial}/{name}")
    assert (answer.content, headers_of(answer)) == (b"", "text/plain; charset=utf-8")
    assert busy.service.open_readings == 0


async def test_other_files(busy: Lab) -> None:
    busy.runner.session.service = None
    trial = busy.life.trial(0)
    folder = busy.manager.folder / "trials" / trial
    folder.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(b"\x00\xff")
    (folder / "link").symlink_to(busy.manager.folder / "db" / "nnimgr.sqlite")
    (folder / "folder").mkdir()
    (folder.parent / "secret").write_text("secret")
    answer = await busy.client.get(f"{NNI}/trial-file/{trial}/model.onnx")
    assert (answer.content, headers_of(answer)) == (b"\x00\xff", "application/octet-stream")
    for name in ("nope", "link", "folder", "stdout"):
        answer = await busy.client.get(f"{NNI}/trial-file/{trial}/{name}")
        assert says(answer, 500) == f"ENOENT: no such file or directory, open '{folder}/{name}'"
    for name in ("..%2Fsecret", "%2E%2E", "%2e", "a%00b"):
        answer = await busy.client.get(f"{NNI}/trial-file/{trial}/{name}")
        assert answer.status_code in (200, 404, 500)  # 200: the page that every unknown address has
        assert answer.text != "secret" and not answer.text.startswith("SQLite")
    assert says(await busy.client.get(f"{NNI}/trial-file/zzzzz/stdout"), 404) == "Trial job not found"


async def test_nnis_clients_find_the_main_objective_as_default(lab: Lab) -> None:
    life = lab.life
    changed = f.ConfigChanged(
        changes={"objectives": {"size": "minimize", "loss": "minimize"}}, limits=f.Limits(trial_concurrency=3)
    )
    life.take(changed)
    life.start(0)
    life.take(f.MetricReported(life.job(0), 0, "PERIODICAL", 0, "0", 0.5, "0.5"))
    life.take(f.MetricReported(life.job(0), 1, "FINAL", 0, "0", None, '{"loss": 1, "size": 2.5}'))
    life.end(0)
    await lab.runner.commit()
    final = {"loss": 1, "size": 2.5, "default": 2.5}
    for path in ("metric-data", "metric-data-latest", f"metric-data/{life.trial(0)}"):
        data = [
            json.loads(json.loads(each["data"])) for each in (await lab.client.get(f"{NNI}/{path}")).json()
        ]
        assert sorted(map(str, data)) == sorted(map(str, [0.5, final]))
    profile = (await lab.client.get("/api/v1/experiments/exp")).json()
    assert profile["objectives"] == {"size": "minimize", "loss": "minimize"}
    (shown,) = (await lab.client.get(f"{NNI}/trial-jobs?status=SUCCEEDED")).json()
    assert [json.loads(json.loads(each["data"])) for each in shown["finalMetricData"]] == [final]
