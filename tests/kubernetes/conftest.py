"""A scripted API server, and the real cluster that KUBECONFIG names, if there is one."""

from __future__ import annotations

import asyncio
import os
import secrets
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.kubernetes.fake_api import FakeApi
from training_services.kubernetes.client import Cluster

REAL = "KUBECONFIG"
PREFIX = "nnimgr-test-"
BUSYBOX = os.environ.get("NNIMGR_TEST_BUSYBOX", "localhost/busybox:h5")  # an image of the cluster with sh


@pytest.fixture
def fake() -> Iterator[FakeApi]:
    with FakeApi() as api:
        yield api


@pytest.fixture
async def connected(fake: FakeApi, tmp_path: Path) -> AsyncIterator[Cluster]:
    """The scripted server's client."""
    cluster = Cluster(fake.kubeconfig(tmp_path), None, {})
    yield cluster
    await cluster.close()


class RealCluster(NamedTuple):
    """A cluster with a namespace of this test's own in it."""

    cluster: Cluster
    namespace: str


@pytest.fixture
async def cluster() -> AsyncIterator[RealCluster]:
    """The real cluster; the namespace is removed without waiting. Needs ``kubectl``."""
    if not os.environ.get(REAL):
        pytest.skip(f"no cluster: {REAL} is not set")
    namespace = PREFIX + secrets.token_hex(4)
    made = await _kubectl("create", "namespace", namespace)
    if made.returncode:
        pytest.skip(f"no cluster: {made.stderr.strip()[-200:]}")
    client = Cluster(None, None, os.environ)
    yield RealCluster(client, namespace)
    await client.close()
    await _kubectl("delete", "namespace", namespace, "--wait=false")


async def _kubectl(*arguments: str) -> subprocess.CompletedProcess[str]:
    return await asyncio.to_thread(
        subprocess.run, ["kubectl", *arguments], capture_output=True, text=True, timeout=60, check=False
    )
