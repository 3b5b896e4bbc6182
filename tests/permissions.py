"""Running a command that obeys the permissions of files, although the tests run as root."""

from __future__ import annotations

import os
import shutil

import pytest


def obedient(*command: str) -> list[str]:
    """The command, without root's right to pass over permissions."""
    if os.geteuid() != 0:
        return [*command]
    if shutil.which("setpriv") is None:
        pytest.skip("setpriv is not installed, so root's rights cannot be given up")
    return ["setpriv", "--bounding-set=-dac_override,-dac_read_search", *command]
