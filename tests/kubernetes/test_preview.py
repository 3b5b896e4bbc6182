"""What a cluster is asked before anything is made in it, and how its answers are told."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from training_services.base import ServiceUnavailable
from training_services.kubernetes.client import ApiError, Resource
from training_services.kubernetes.config import KubernetesConfig
from training_services.kubernetes.preview import first_job, usual_namespace, verdict
from training_services.kubernetes.rights import MAY, lacking
from training_services.placement.needs import Wants


class FakeCluster:
    """Answers with an error for one kind of objects, or not at all, or cannot be reached."""

    namespace = "lab"
    server = "https://cluster"

    lacks = ""  # verb that this user may not use, or resource that the user may not see

    def __init__(
        self, *, refuses: tuple[str, str] = ("", ""), away: bool = False, hangs_at: str | None = None
    ) -> None:
        self.asked: list[tuple[str, str, bool]] = []
        self._refuses, self._away, self._hangs_at = refuses, away, hangs_at

    async def connect(self) -> None:
        if self._away:
            raise ServiceUnavailable("nobody answers")
        if self._hangs_at == "login":
            await asyncio.Event().wait()

    async def create(
        self, resource: Resource, namespace: str, body: Mapping[str, Any], *, dry_run: bool = False
    ) -> dict[str, Any]:
        self.asked.append((body["kind"], namespace, dry_run))
        if body["kind"] == self._hangs_at:
            await asyncio.Event().wait()
        kind, message = self._refuses
        if body["kind"] == kind:
            raise ApiError(403, "Forbidden", message)
        return dict(body)

    async def review_rights(self, namespace: str) -> dict[str, Any]:
        rules = [
            {
                "apiGroups": [name.partition(".")[2]],
                "resources": [name.partition(".")[0]],
                "verbs": [verb for verb in verbs if verb != self.lacks],
            }
            for name, verbs in MAY.items()
            if name != self.lacks
        ]
        return {"status": {"incomplete": False, "resourceRules": rules}}


def planned(config: KubernetesConfig) -> dict[str, Any]:
    nothing = Wants(None, None, None)
    return first_job(config, "My_Exp-abcde-1", namespace="lab", wants=nothing, grace=timedelta(seconds=5))


async def test_all_kinds_are_asked_for_and_none_is_made() -> None:
    cluster = FakeCluster()
    accepted, sentence = await verdict(cluster, "My_Exp", planned(KubernetesConfig(image="a")))
    assert (accepted, sentence) == (
        True,
        "the cluster at https://cluster would accept the Job, in namespace lab",
    )
    assert cluster.asked == [(kind, "lab", True) for kind in ("ConfigMap", "Secret", "Job", "Pod")]


async def test_rights_that_are_missing_are_named() -> None:
    cluster = FakeCluster()
    cluster.lacks = "delete"
    assert await verdict(cluster, "My_Exp", planned(KubernetesConfig(image="a"))) == (
        False,
        "the user of the cluster may not delete jobs, delete configmaps, delete secrets in namespace lab, "
        "and nnimgr needs these rights",
    )


async def test_rights_that_only_explain_are_not_needed() -> None:
    cluster = FakeCluster()
    cluster.lacks = "events"
    accepted, sentence = await verdict(cluster, "My_Exp", planned(KubernetesConfig(image="a")))
    assert accepted is True
    assert sentence.endswith(
        "in namespace lab; the user of the cluster may not list events, watch events in namespace lab, so "
        "some reasons will not be known"
    )


def test_rights_that_are_not_known_completely_are_not_judged() -> None:
    some = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
    assert lacking({"status": {"incomplete": True, "resourceRules": []}}) == []
    assert lacking({"status": {"resourceRules": [some]}}) == []
    assert "list pods" in lacking({"status": {"resourceRules": [{**some, "resourceNames": ["one"]}]}})


@pytest.mark.parametrize(
    ("kind", "message", "accepted"),
    [
        ("Job", "Job in version v1 cannot be handled", False),
        ("Pod", "error looking up service account lab/trainer", False),
        ("Secret", 'secrets is forbidden: User "x" cannot create resource "secrets"', False),
        ("Pod", 'pods is forbidden: User "x" cannot create resource "pods"', True),  # Jobs make them
    ],
)
async def test_a_refusal_is_told(kind: str, message: str, accepted: bool) -> None:
    cluster = FakeCluster(refuses=(kind, message))
    found, sentence = await verdict(cluster, "My_Exp", planned(KubernetesConfig(image="a")))
    assert found is accepted
    if not accepted:
        assert sentence == f"the cluster rejects the Job: {message}"


async def test_a_cluster_that_is_away_says_nothing() -> None:
    cluster = FakeCluster(away=True)
    found = await verdict(cluster, "My_Exp", planned(KubernetesConfig(image="a")))
    assert found == (None, "the cluster could not be asked: nobody answers")
    assert await usual_namespace(cluster) == "default"
    assert await usual_namespace(FakeCluster()) == "lab"


@pytest.mark.parametrize(
    ("kind", "call"),
    [("login", "the login"), ("Secret", "the dry run of secrets"), ("Pod", "the dry run of pods")],
)
async def test_a_call_that_hangs_is_named(monkeypatch: pytest.MonkeyPatch, kind: str, call: str) -> None:
    monkeypatch.setattr("training_services.kubernetes.preview.ANSWER_S", 0.0)
    cluster = FakeCluster(hangs_at=kind)
    found = await verdict(cluster, "My_Exp", planned(KubernetesConfig(image="a")))
    assert found == (None, f"the cluster could not be asked: {call} has not been answered within 0 s")
    if kind == "login":
        assert await usual_namespace(cluster) == "default"


def test_the_first_job_has_a_name_that_can_be_one() -> None:
    config = KubernetesConfig(image="a")
    metadata = planned(config)["metadata"]
    assert metadata["name"].startswith("my-exp-abcde-1-")
    assert metadata["labels"]["nnimgr.io/experiment"] == "My_Exp"
    assert (metadata["labels"]["nnimgr.io/trial"], metadata["labels"]["nnimgr.io/attempt"]) == ("abcde", "1")


def test_a_pod_of_a_pool_is_no_trials() -> None:
    metadata = planned(KubernetesConfig(image="a", reuse_mode=True))["metadata"]
    assert metadata["name"].startswith("my-exp-pool-000000-")
    assert "nnimgr.io/trial" not in metadata["labels"]
