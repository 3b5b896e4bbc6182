"""A trial's channel that a script or test sets itself (``nni.runtime.trial_command_channel``)."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import nni
from nni import _trial
from nni.runtime.trial_command_channel import (
    TrialCommandChannel,
    get_default_trial_command_channel,
    set_default_trial_command_channel,
)
from nni.runtime.trial_command_channel.local_legacy import LocalLegacyTrialCommandChannel
from nni.runtime.trial_command_channel.standalone import StandaloneTrialCommandChannel
from nni.trial import overwrite_intermediate_seq


class Mine(TrialCommandChannel):
    """Channel with one parameter set, which keeps the reports."""

    def __init__(self) -> None:
        self.reports: list[dict[str, Any]] = []

    def receive_parameter(self) -> Any:
        return {"parameter_id": 7, "parameters": {"x": 0}}

    def send_metric(self, **report: Any) -> None:  # type: ignore[override]
        self.reports.append(report)


@pytest.fixture(autouse=True)
def _restored(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("NNI_PLATFORM", "NNI_TRIAL_JOB_ID", "NNI_TRIAL_COMMAND_CHANNEL"):
        monkeypatch.delenv(name, raising=False)
    overwrite_intermediate_seq(0)
    yield
    _trial.use_channel(None)


def test_a_channel_of_ones_own() -> None:
    built_in = get_default_trial_command_channel()
    assert isinstance(built_in, StandaloneTrialCommandChannel)
    mine = Mine()
    assert set_default_trial_command_channel(mine) is mine is get_default_trial_command_channel()
    assert nni.get_next_parameter() == {"x": 0} and nni.get_current_parameter("x") == 0
    overwrite_intermediate_seq(5)
    nni.report_intermediate_result(1)
    nni.report_final_result({"default": 2})
    common = {"parameter_id": 7, "trial_job_id": None}
    assert mine.reports == [
        {"type": "PERIODICAL", "sequence": 5, "value": 1, **common},
        {"type": "FINAL", "sequence": 0, "value": {"default": 2}, **common},
    ]
    assert set_default_trial_command_channel(built_in) is built_in
    assert nni.get_next_parameter(default={"x": 3}) == {"x": 3}
    assert len(mine.reports) == 2


def test_the_environment_names_a_class(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NNI_TRIAL_COMMAND_CHANNEL", f"import://{__name__}.Mine")
    assert nni.get_next_parameter() == {"x": 0}
    assert isinstance(get_default_trial_command_channel(), Mine)
    _trial.use_channel(None)
    monkeypatch.setenv("NNI_TRIAL_COMMAND_CHANNEL", "import://builtins.dict")
    with pytest.raises(TypeError, match="is not a TrialCommandChannel"):
        get_default_trial_command_channel()


def test_outside_an_experiment_results_are_printed_and_logged(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.warns(RuntimeWarning, match="Running trial code without runtime"):
        assert nni.get_next_parameter() == {}
    nni.report_intermediate_result(1)
    nni.report_intermediate_result(2)
    nni.report_final_result(3)
    sentences = ["Intermediate result: 1  (Index 0)", "Intermediate result: 2  (Index 1)", "Final result: 3"]
    assert [record.getMessage() for record in caplog.records if record.name == "nni"] == sentences
    printed = capsys.readouterr().out
    assert all(printed.count(sentence) == 1 for sentence in sentences)
    nni.enable_global_logging()
    try:
        nni.report_final_result(4)
        assert capsys.readouterr().out.count("Final result: 4") == 1
    finally:
        nni.enable_global_logging(False)
        logging.getLogger("nni").setLevel(logging.NOTSET)


def test_the_channel_over_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "parameter.cfg").write_text('{"parameter_id": 1, "parameters": {"x": 2}}')
    for name, value in {
        "NNI_PLATFORM": "local",
        "NNI_SYS_DIR": str(tmp_path),
        "NNI_TRIAL_JOB_ID": "t",
    }.items():
        monkeypatch.setenv(name, value)
    channel = LocalLegacyTrialCommandChannel()
    assert channel.receive_parameter() == {"parameter_id": 1, "parameters": {"x": 2}}
    channel.send_metric(type="FINAL", parameter_id=1, trial_job_id="t", sequence=0, value=0.5)
    assert b'"type": "FINAL", "sequence": 0, "value": "0.5"' in (tmp_path / ".nni" / "metrics").read_bytes()
    assert channel.receive_parameter() is None
