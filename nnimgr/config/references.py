"""References to secrets, written as ``${env:NAME}`` or ``${file:PATH}`` inside texts.

``${secret:FIELD}`` is internal: it refers to a secret that was a field's plain text
(``nnimgr.config.secrets``). When a configuration is read, references are only checked. They are resolved at
the moment of use, so that no secret is stored.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

__all__ = ["ReferenceUnresolved", "anchor", "has_reference", "is_reference", "resolve_secrets"]

_REFERENCE = re.compile(r"\$\{(env|file|secret):([^{}]*)\}")


class ReferenceUnresolved(ValueError):
    """Error: the target of a reference does not exist. The message is one sentence and shows no secret."""


def has_reference(value: Any) -> bool:
    return isinstance(value, str) and _REFERENCE.search(value) is not None


def is_reference(value: str) -> bool:
    """Return whether the text is exactly one reference to a secret, without other text."""
    return _REFERENCE.fullmatch(value) is not None


def resolve_secrets(
    value: Any, environ: Mapping[str, str], base: Path, *, secrets: Mapping[str, str] = MappingProxyType({})
) -> Any:
    """Return ``value`` (plain JSON values) with every reference to a secret replaced by the secret.

    Relative names of files start from ``base``. A line end at the end of a file is removed. Raise
    ReferenceUnresolved.
    """
    if isinstance(value, str):
        return _REFERENCE.sub(lambda match: _resolve(match[1], match[2], environ, base, secrets), value)
    if isinstance(value, Mapping):
        return {key: resolve_secrets(item, environ, base, secrets=secrets) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [resolve_secrets(item, environ, base, secrets=secrets) for item in value]
    return value


def anchor(text: str, base: Path) -> str:
    """Return ``text`` with absolute paths in its references to files."""

    def absolute(match: re.Match[str]) -> str:
        kind, name = match.groups()
        return f"${{file:{_locate(name, base)}}}" if kind == "file" else match[0]

    return _REFERENCE.sub(absolute, text)


def _resolve(kind: str, name: str, environ: Mapping[str, str], base: Path, secrets: Mapping[str, str]) -> str:
    if kind == "secret":
        if name not in secrets:
            raise ReferenceUnresolved(f"no secret is kept for {name}")
        return secrets[name]
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
