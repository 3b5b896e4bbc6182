"""Locales with another encoding than UTF-8: programs of nnimgr use UTF-8 in spite of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.locales import latin
from tests.trial_keeper.harness import oldest_python

SCRIPT = """
import sys
sys.path.insert(0, {root!r})
from trial_keeper.machine.encoding import use_utf8
use_utf8()
print(sys.flags.utf8_mode, sys.flags.no_site, ascii(sys.argv[1:]))
"""


@pytest.mark.parametrize("which", ["this", "oldest"])
def test_a_program_starts_again_in_utf8_mode(which: str, tmp_path: Path) -> None:
    python = sys.executable if which == "this" else oldest_python()
    if python is None:
        pytest.skip("there is no Python 3.8")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(root=str(Path(__file__).parents[2])))
    said = [
        subprocess.run(
            [python, "-S", "-E", str(script), "ü日"],
            env={**os.environ, **locale},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for locale in ({"LC_ALL": "C.UTF-8"}, latin(tmp_path))
    ]
    assert said == [f"{mode} 1 ['\\xfc\\u65e5']\n" for mode in (0, 1)]
