"""An experiment in allocations of a real Ray cluster, behind a real server."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.allocated import LIMIT_S, AllocatedField
from tests.e2e.scene import eventually
from tests.ray.cluster import RayCluster
from tests.server.harness import nothing_left


class Field(AllocatedField):
    """An experiment on a Ray cluster."""

    def __init__(self, stack: contextlib.ExitStack, directory: Path, cluster: RayCluster) -> None:
        self.cluster = cluster
        super().__init__(stack, directory)

    def service(self) -> dict[str, Any]:
        return {"platform": "ray", "address": self.cluster.address, "token": self.cluster.token}

    def allocations(self) -> set[str]:
        return set(self.cluster.jobs())


@pytest.fixture
def field(tmp_path: Path) -> Iterator[Field]:
    with RayCluster() as cluster, nothing_left(tmp_path), contextlib.ExitStack() as stack:
        found = Field(stack, tmp_path, cluster)
        try:
            yield found
        finally:
            if found.server.process.poll() is None:
                found.server.call("POST", f"{found.url}/stop")


def test_trials_in_allocations_outlive_the_server(field: Field) -> None:
    field.outlive_the_server()
    eventually(lambda: set(field.cluster.jobs().values()) == {"SUCCEEDED"}, "the end of the jobs", LIMIT_S)


def test_members_of_a_gang_have_allocations_that_a_killed_server_adopts(field: Field) -> None:
    field.adopt_a_gang()


def test_a_trial_gets_a_member_when_the_cluster_has_room(field: Field) -> None:
    other = {"entrypoint": "sleep 1000", "submission_id": "other", "entrypoint_num_cpus": 2}
    assert field.cluster.ask("POST", "/api/jobs/", other)[0] == 200
    eventually(lambda: field.cluster.jobs().get("other") == "RUNNING", "the other job", LIMIT_S)
    field.grow_a_gang(lambda: field.cluster.ask("POST", "/api/jobs/other/stop"))
