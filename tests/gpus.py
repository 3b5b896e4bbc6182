"""A machine's GPUs by script: an ``nvidia-smi`` that says what a test has written down."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

SCRIPT = """\
#!/bin/sh
here=$(dirname "$0")
[ -e "$here/hangs" ] && exec sleep 1000
case $1 in
    --query-gpu=*) cat "$here/gpus" ;;
    --query-compute-apps=*) cat "$here/processes" ;;
esac
"""


class ScriptedGpus:
    """``environ`` is what the keeper has to run in. A change is seen within a moment."""

    def __init__(self, directory: Path, *indices: int) -> None:
        self._directory = directory / "bin"
        self._directory.mkdir()
        tool = self._directory / "nvidia-smi"
        tool.write_text(SCRIPT)
        tool.chmod(0o755)
        self.are(*indices)
        self.compute({})

    @property
    def environ(self) -> dict[str, str]:
        return {"PATH": f"{self._directory}:{os.environ['PATH']}", "NNIMGR_GPU_PAUSE_S": "0.05"}

    def are(self, *indices: int) -> None:
        """These GPUs are there."""
        self._write("gpus", "".join(f"{index}, GPU-{index}, 3, 40\n" for index in indices))

    def compute(self, processes: Mapping[int, int]) -> None:
        """These processes (by pid) compute on these GPUs."""
        self._write("processes", "".join(f"GPU-{gpu}, {pid}, 100\n" for pid, gpu in processes.items()))

    def hang(self) -> None:
        self._write("hangs", "")

    def _write(self, name: str, text: str) -> None:
        new = self._directory / "new"
        new.write_text(text)
        new.rename(self._directory / name)
