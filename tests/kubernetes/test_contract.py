"""The contract on a real cluster, whose node is this machine: a pod for each trial, and pods for many."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.kubernetes.conftest import PYTHON, RealCluster, node_address
from tests.training_services.allocations.platform import MARK, AllocatedPlatform
from training_services.kubernetes.config import KubernetesConfig
from training_services.kubernetes.service import KubernetesService
from training_services.testing import TrainingServiceContract

SHARED = "/shared"  # in the pods: scripts and gates of this machine
# A pod may call while a test ends. asyncio keeps no account of a connection whose TLS handshake is not over,
# so nobody can close it then.
_UNCLOSED = ("unclosed transport", r"unclosed <socket\.socket .* raddr=\('10\.")
pytestmark = [pytest.mark.filterwarnings(f"ignore:{text}:ResourceWarning") for text in _UNCLOSED]


class KubernetesPlatform(AllocatedPlatform):
    def __init__(self, directory: Path, namespace: str, address: str, *, reuse_mode: bool) -> None:
        super().__init__(directory, seen_as=SHARED)
        self.address = address
        self.config = KubernetesConfig.model_validate(
            {
                "image": PYTHON,
                "image_pull_policy": "IfNotPresent",
                "namespace": namespace,
                "reuse_mode": reuse_mode,
                "env": {MARK: self.run},
                "volumes": [{"name": "shared", "mount_path": SHARED, "host_path": str(self.shared)}],
            }
        )

    def make(self) -> KubernetesService:
        return KubernetesService(
            self.context(os.environ, nni_manager_ip=self.address), self.config, self.tools
        )


class _Contract(TrainingServiceContract):
    reuse_mode: bool

    @pytest.fixture
    async def platform(self, tmp_path: Path, cluster: RealCluster) -> AsyncIterator[KubernetesPlatform]:
        address = await node_address()
        made = KubernetesPlatform(tmp_path, cluster.namespace, address, reuse_mode=self.reuse_mode)
        yield made
        await made.close()


class TestOwnPods(_Contract):
    reuse_mode = False


class TestSharedPods(_Contract):
    reuse_mode = True
