"""References to secrets: ``${env:NAME}`` and ``${file:PATH}`` inside texts.

Where a secret may stand they are only checked when a configuration is read, kept as they are, and resolved at
the moment of use, so that no secret is ever stored.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["ReferenceUnresolved", "anchor", "has_reference", "resolve_secrets"]

_REFERENCE = re.compile(r"\$\{(env|file):([^{}]*)\}")


class ReferenceUnresolved(ValueError):
    """What a reference names does not exist; the message is one sentence and holds no secret."""


def has_reference(value: Any) -> bool:
    return isinstance(value, str) and _REFERENCE.search(value) is not None


def resolve_secrets(value: Any, environ: Mapping[str, str], base: Path) -> Any:
    """``value`` (any plain JSON value) with every reference in it replaced by what it names.

    Relative file names are looked up from ``base``; a file's last line end does not count.
    Raises ReferenceUnresolved.
    """
    if isinstance(value, str):
        return _REFERENCE.sub(lambda match: _resolve(match[1], match[2], environ, base), value)
    if isinstance(value, Mapping):
        return {key: resolve_secrets(item, environ, base) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [resolve_secrets(item, environ, base) for item in value]
    return value


def anchor(text: str, base: Path) -> str:
    """``text`` with the file names of its references made absolute."""

    def absolute(match: re.Match[str]) -> str:
        kind, name = match.groups()
        return match[0] if kind == "env" else f"${{file:{_locate(name, base)}}}"

    return _REFERENCE.sub(absolute, text)


def _resolve(kind: str, name: str, environ: Mapping[str, str], base: Path) -> str:
    if kind == "env":
        if name not in environ:
            raise ReferenceUnresolved(f"the environment variable {name} is not set")
        return environ[name]
    path = _locate(name, base)
    try:
        return path.read_text(encoding="utf-8").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise ReferenceUnresolved(f"the file {path} is not UTF-8 text") from None
    except OSError as error:
        raise ReferenceUnresolved(f"the file {path} cannot be read: {error.strerror}") from error


def _locate(name: str, base: Path) -> Path:
    return base / os.path.expanduser(name)
