"""A scripted API server, and the real cluster that KUBECONFIG names, if there is one."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import socket
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
PYTHON = os.environ.get("NNIMGR_TEST_PYTHON", "localhost/python:h5")  # and one with sh, setsid and Python


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
    made = await kubectl("create", "namespace", namespace)
    if made.returncode:
        pytest.skip(f"no cluster: {made.stderr.strip()[-200:]}")
    await kubectl("create", "serviceaccount", "default", "-n", namespace)  # no pod without; it may be there
    client = Cluster(None, None, os.environ)
    yield RealCluster(client, namespace)
    await client.close()
    await kubectl("delete", "namespace", namespace, "--wait=false")


async def node_address() -> str:
    """The address at which pods reach this machine, which is the cluster's only node; skips elsewhere."""
    nodes = json.loads((await kubectl("get", "nodes", "-o", "json")).stdout)["items"]
    addresses = [each["address"] for node in nodes for each in node["status"]["addresses"]]
    for address in addresses if len(nodes) == 1 else []:
        with socket.socket() as probe:
            try:
                probe.bind((address, 0))
            except OSError:
                continue
            return str(address)
    pytest.skip("the cluster's node is another machine")


async def kubectl(*arguments: str) -> subprocess.CompletedProcess[str]:
    return await asyncio.to_thread(
        subprocess.run, ["kubectl", *arguments], capture_output=True, text=True, timeout=60, check=False
    )
