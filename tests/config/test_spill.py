"""Clusters in a list of training services, and the field ``spill``."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from nnimgr.config import ExperimentConfig, read_canonical
from nnimgr.config.spill import describe_route, one_of_several, spill_rule
from tests.config.test_hybrid import REMOTE, faults, load

LOCAL = "- platform: local\n"
SLURM = "- {platform: slurm, timeLimit: 1h}\n"
RAY = "- {platform: ray, address: http://head:8265, token: secret}\n"
PODS = '- {platform: kubernetes, image: "python:3.12"}\n'


def route(config: ExperimentConfig) -> str | None:
    return describe_route(config)


def test_clusters_may_be_in_a_list(tmp_path: Path) -> None:
    found = load(tmp_path, LOCAL + SLURM + PODS + RAY)
    assert [one_of_several(member) for member in found.members] == ["local", "slurm", "kubernetes", "ray"]
    assert (route(found), spill_rule(found)) == ("local, then slurm, then kubernetes, then ray", None)
    assert read_canonical(found.canonical()).canonical() == found.canonical()


def test_without_an_order_machines_are_one_platform(tmp_path: Path) -> None:
    assert route(load(tmp_path, SLURM + LOCAL + REMOTE)) == "slurm, then local and remote"
    assert route(load(tmp_path, LOCAL + SLURM + REMOTE)) == "local and remote, then slurm"


def test_one_platform_needs_no_names(tmp_path: Path) -> None:
    (member,) = load(tmp_path, SLURM).members
    assert one_of_several(member) == "" and route(member.config) is None


def test_a_cluster_is_given_once(tmp_path: Path) -> None:
    told = faults(tmp_path, SLURM + LOCAL + SLURM)
    assert "trainingService[2]: the platform slurm is given by trainingService[0] already" in told


def test_trials_of_programs_are_not_shared(tmp_path: Path) -> None:
    told = faults(tmp_path, LOCAL + "- platform: ask\n")
    assert "'ask' cannot be one of several training services, because programs ask for its trials" in told


def test_trials_go_on_in_the_order_of_the_list(tmp_path: Path) -> None:
    found = load(tmp_path, LOCAL + SLURM + "spill: {after: 2m}\n")
    rule = spill_rule(found)
    assert rule is not None and (rule.after, rule.order) == (timedelta(minutes=2), (0, 1))
    assert route(found) == "local, then after 2m slurm"
    assert read_canonical(found.canonical()).canonical() == found.canonical()


def test_another_order_can_be_given(tmp_path: Path) -> None:
    found = load(tmp_path, LOCAL + SLURM + REMOTE + "spill: {after: 90s, order: [slurm, local, remote]}\n")
    rule = spill_rule(found)
    assert rule is not None and rule.order == (1, 0, 2)
    assert route(found) == "slurm, then after 90s local, then after 90s remote"


@pytest.mark.parametrize(
    ("services", "spill", "sentence"),
    [
        (LOCAL, "{after: 2m}", "spill: needs several platforms"),
        (LOCAL + SLURM, "{order: [slurm, local]}", "spill.after: required"),
        (LOCAL + SLURM, "{after: 0s}", "spill.after: '0s' is not longer than zero"),
        (LOCAL + SLURM, "{after: 2m, order: [slurm]}", "spill.order: must name all platforms"),
        (LOCAL + SLURM, "{after: 2m, order: [slurm, slum]}", "no platform 'slum' in trainingService"),
        (LOCAL + SLURM, "{after: 2m, order: [slurm, slurm, local]}", "'slurm' is named twice"),
        (
            REMOTE + REMOTE.replace("host: a", "host: b"),
            "{after: 2m, order: [remote]}",
            "is in trainingService",
        ),
    ],
)
def test_faults_of_spill_say_what_to_do(tmp_path: Path, services: str, spill: str, sentence: str) -> None:
    assert sentence in faults(tmp_path, f"{services}spill: {spill}\n")
