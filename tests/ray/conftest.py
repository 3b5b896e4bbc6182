"""A Ray cluster for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.ray.cluster import RayCluster


@pytest.fixture(scope="session")
def ray() -> Iterator[RayCluster]:
    with RayCluster() as cluster:
        yield cluster
