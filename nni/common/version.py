"""Check of the package versions on which a stored object may depend."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping, Sequence
from importlib import metadata

import nni

__all__ = ["torch_version_is_2", "version_check", "version_dump"]

_PACKAGES = {
    "numpy": "numpy",
    "torch": "torch",
    "pytorch_lightning": "pytorch-lightning",
    "tensorflow": "tensorflow",
    "cloudpickle": "cloudpickle",
    "json_tricks": "json-tricks",
    "pyyaml": "PyYAML",
}


PYTHON_VERSION = sys.version_info[:2]


def version_dump() -> dict[str, tuple[int, int] | None]:
    """Return the major and minor versions of Python, nni and some packages.

    The version of a missing package is None.
    """
    found = {name: _installed(package) for name, package in _PACKAGES.items()}
    return {"python": PYTHON_VERSION, **found, "nni": _minor(nni.__version__)}


def version_check(expect: Mapping[str, Sequence[int] | None], raise_error: bool = False) -> None:
    """Warn of each package whose version differs from that in ``expect``.

    With ``raise_error``, raise RuntimeError instead.
    """
    current = version_dump()
    for package, version in expect.items():
        if version and current.get(package) != tuple(version):
            sentence = f"Version check: {package} {tuple(version)} is expected, not {current.get(package)}"
            if raise_error:
                raise RuntimeError(sentence)
            warnings.warn(sentence, stacklevel=2)


def torch_version_is_2() -> bool:
    """Return whether PyTorch 2 or newer is installed."""
    version = _installed("torch")
    return version is not None and version >= (2, 0)


def _installed(package: str) -> tuple[int, int] | None:
    try:
        return _minor(metadata.version(package))
    except metadata.PackageNotFoundError:
        return None


def _minor(version: str) -> tuple[int, int]:
    """Return the first two numbers of a version, such as (2, 1) for "2.1.0".

    A part that is not a number counts as -1.
    """
    major, minor, *_ = [*version.split("."), "-", "-"]
    return (int(major) if major.isdigit() else -1, int(minor) if minor.isdigit() else -1)
