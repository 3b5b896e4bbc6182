"""Conditions under which our dashboard can be compared with NNI's."""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks import dashboard_peers
from benchmarks.ground import Ground
from benchmarks.peers.ask import Peers


def test_without_peers_nothing_is_measured(tmp_path: Path) -> None:
    with Ground(tmp_path) as ground:
        options = argparse.Namespace(trials=10, seconds=1.0)
        assert list(dashboard_peers.measure(ground, Peers(ground, wanted=False), options)) == []
