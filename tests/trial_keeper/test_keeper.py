"""Real processes: a keeper, its shims and trials, against a server that speaks the protocol."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.trial_keeper.harness import Host, host

REPORT = "printf 'ME000003%s\\n' aa >> $NNI_SYS_DIR/.nni/metrics; "


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Host]:
    with host(tmp_path) as found:
        yield found


def test_a_trial_starts_reports_and_ends(here: Host) -> None:
    directory = here.attempt("e-a-1", REPORT + "echo out; echo err >&2; env | sort > seen; exit 3")
    told = here.server.ended("e-a-1")
    assert told.frames == [b"aa\n"]
    assert told.started is not None and told.started["pid"] > 0
    assert told.final is not None
    assert (told.final["reason"], told.final["code"], told.final["signal"]) == ("exited", 3, None)
    assert (directory / "stdout").read_text() == "out\n"
    assert (directory / "stderr").read_text() == "err\n"
    assert (directory / "parameter.cfg").read_text() == '{"parameter_id": 0, "parameters": {}}'
    seen = (here.directory / "seen").read_text()
    assert f"NNI_SYS_DIR={directory}\n" in seen
    assert "NNIMGR_JOB_ID=e-a-1\n" in seen
