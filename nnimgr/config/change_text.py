"""New values for fields of a running experiment, given as YAML or JSON texts. Errors name their line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from nnimgr.config.document import Document, KeyPath, number_hint_at
from nnimgr.config.parsing import Reading, match_key, plain
from nnimgr.config.problems import ConfigError, Problem
from nnimgr.config.references import anchor
from nnimgr.spelling import nearest

__all__ = ["ChangeText", "TextField", "anchored_tuner", "read_changes", "tuner_section"]

TextField = Literal["searchSpace", "searchSpaceConstraints", "tuner"]


def read_changes(texts: Mapping[TextField, str], *, base: Path) -> list[ChangeText]:
    """Return the new values of several fields. ``base``: directory for relative paths in a new tuner.

    Raise ConfigError with all errors. Each error names the field, and the place in the field's text.
    """
    found, problems = [], []
    for field, text in texts.items():
        try:
            found.append(ChangeText(field, text, base=base))
        except ConfigError as error:
            problems += [replace(each, field=_below(field, each.field)) for each in error.problems]
    if problems:
        raise ConfigError(problems)
    return found


class ChangeText:
    """New value of one field of a running experiment, read from a YAML or JSON text.

    The constructor raises ConfigError if the text cannot be read. Its errors name the path in the text.
    """

    def __init__(self, field: TextField, text: str, *, base: Path) -> None:
        self.field = field
        self._document = Document(None, text)
        self._at: KeyPath = ()
        reading = Reading(document=self._document)
        self.value: Any = plain(reading, self._document.value, ())
        if reading.problems:
            raise ConfigError(reading.problems)
        if field == "tuner":
            self._at, tuner = tuner_section(self._document, self.value)
            self.value = anchored_tuner(tuner, base)
        elif field == "searchSpaceConstraints" and self.value in (None, []):
            self.value = None

    def concerns(self, problem: Problem) -> bool:
        """Return whether an error is about this field or about a part of it."""
        return problem.field.partition(".")[0].partition("[")[0] == self.field

    def located(self, problem: Problem) -> Problem:
        """Return an error about this field with its line and column in the field's text."""
        path = (*self._at, *self._path(problem.field.removeprefix(self.field)))
        hint = number_hint_at(self._document.value, path)
        place = self._document.problem(path, problem.message)
        return replace(
            problem, message=f"{problem.message}{hint}", line=place.line or 1, column=place.column or 1
        )

    def _path(self, rest: str) -> KeyPath:
        """Return the path in the text for ``rest``, a part of this field such as ``.classArgs.seed``.

        Names in the text may contain dots, so ``rest`` is not simply split at dots.
        """
        value: Any = self._document.value
        for part in self._at:
            value = value[part]
        path: list[str | int] = []
        while rest := rest.lstrip("."):
            key = _first(value, rest)
            if key is None:
                break
            path.append(key)
            rest = rest.removeprefix(f"[{key}]") if isinstance(key, int) else rest[len(key) :]
            value = value[key]
        return tuple(path)


def _below(field: str, inner: str) -> str:
    return f"{field}.{inner}" if inner and not inner.startswith("[") else field + inner


def _first(value: Any, rest: str) -> str | int | None:
    """Return the key of ``value`` that is the first part of the field path ``rest``, or None.

    A key matches in any spelling that NNI accepts.
    """
    index = re.match(r"\[(\d+)\]", rest)
    if isinstance(value, list):
        return int(index[1]) if index is not None and int(index[1]) < len(value) else None
    if not isinstance(value, Mapping):
        return None
    names = sorted((key for key in value if isinstance(key, str)), key=len, reverse=True)
    for name in names:
        if rest.startswith(name) and rest[len(name) : len(name) + 1] in ("", ".", "["):
            return name
    word = re.split(r"[.\[]", rest)[0]
    return next((name for name in names if match_key(name) == match_key(word)), None)


def tuner_section(document: Document, content: Any) -> tuple[KeyPath, dict[str, Any]]:
    """Return the path of the tuner in a text, and the tuner: the field ``tuner``, or the whole text.

    Raise ConfigError if the text has no tuner.
    """
    if isinstance(content, Mapping):
        for key, value in content.items():
            if match_key(key) == "tuner" and isinstance(value, Mapping):
                return (key,), dict(value)
        if {"name", "classname"} & {match_key(key) for key in content}:
            return (), dict(content)
        for key, value in content.items():
            if isinstance(value, Mapping) and nearest(key, ["tuner"]) is not None:
                raise ConfigError([document.problem((key,), "unknown field", nearest="tuner")])
    sentence = "there is no tuner here: neither 'tuner' nor a 'name' or 'className'"
    raise ConfigError([document.problem((), sentence)])


def anchored_tuner(tuner: Mapping[str, Any], base: Path) -> dict[str, Any]:
    """Return a tuner whose relative paths are made absolute from ``base``.

    References to secrets are kept, because the server resolves them.
    """

    def anchored(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: anchored(item) for key, item in value.items()}
        if isinstance(value, list):
            return [anchored(item) for item in value]
        return anchor(value, base) if isinstance(value, str) else value

    found: dict[str, Any] = anchored(tuner)
    for key, value in found.items():
        if match_key(key) == "codedirectory" and isinstance(value, str):
            found[key] = str((base / Path(value).expanduser()).resolve())
    return found
