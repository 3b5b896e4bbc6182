"""Machines that are added to a running experiment, as texts."""

from pathlib import Path

import pytest

from nnimgr.config import ConfigError
from nnimgr.config.machines import load_machines_text


@pytest.mark.parametrize(
    "text",
    [
        "host: one\nuser: me",
        "- host: one\n  user: me",
        "experimentName: x\nmachine_list:\n  - {host: one, user: me}",
        '{"host": "one", "user": "me"}',
    ],
)
def test_machines_are_one_a_list_or_those_of_a_configuration(text: str, tmp_path: Path) -> None:
    (machine,) = load_machines_text(text, base=tmp_path, environ={})
    assert (machine["host"], machine["user"]) == ("one", "me")


def test_relative_paths_refer_to_the_base(tmp_path: Path) -> None:
    (machine,) = load_machines_text("host: one\nsshKeyFile: keys/id", base=tmp_path, environ={})
    assert machine["sshKeyFile"] == str(tmp_path / "keys/id")


def test_a_problem_names_the_machine_and_its_field(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load_machines_text("- host: one\n- host: two\n  port: 0", base=tmp_path, environ={})
    (problem,) = caught.value.problems
    assert problem.field == "machineList[1].port"
