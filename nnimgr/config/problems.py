"""Errors of a configuration: each is a ``Problem``, and one ``ConfigError`` contains all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["ConfigError", "Problem", "dotted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Error or warning about a configuration, with its place. Lines and columns count from 1.

    ``field``: path of the field, such as ``tuner.name``.
    """

    message: str
    field: str = ""
    file: Path | None = None
    line: int | None = None
    column: int | None = None
    valid: tuple[str, ...] = ()
    nearest: str | None = None

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.file, self.line, self.column) if part is not None)
        text = ": ".join(part for part in (place, self.field, self.message) if part)
        if self.nearest is not None:
            text += f"; did you mean '{self.nearest}'?"
        if self.valid:
            text += f" (valid: {', '.join(self.valid)})"
        return text

    def plain(self) -> dict[str, Any]:
        """Return the error as a JSON object. Properties that are not known are left out, except ``field``."""
        found = {
            "message": self.message,
            "field": self.field,
            "file": None if self.file is None else str(self.file),
            "line": self.line,
            "column": self.column,
            "valid": list(self.valid) or None,
            "nearest": self.nearest,
        }
        return {key: value for key, value in found.items() if value is not None}

    @classmethod
    def of_plain(cls, told: Mapping[str, Any]) -> Problem:
        """Return the error that ``plain`` has converted to a JSON object, perhaps in another process."""
        return cls(
            message=str(told.get("message") or ""),
            field=str(told.get("field") or ""),
            file=None if told.get("file") is None else Path(told["file"]),
            line=told.get("line"),
            column=told.get("column"),
            valid=tuple(told.get("valid") or ()),
            nearest=told.get("nearest") or None,
        )


class ConfigError(Exception):
    """Error: the configuration cannot be used. ``problems``: all errors in it, at least one."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


def dotted(path: Sequence[str | int]) -> str:
    """Return a path as text: ``("tuner", "classArgs", "ids", 0)`` as ``tuner.classArgs.ids[0]``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text
