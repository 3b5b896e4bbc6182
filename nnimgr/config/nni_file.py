"""A configuration file with its fields as the user wrote them, for the list of differences from NNI.

Fields are looked up by their names in NNI's second format, even if the file has errors. Each field that is
found has its place in the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from nnimgr.config.document import Document, KeyPath, read_document
from nnimgr.config.parsing import match_key
from nnimgr.config.problems import ConfigError, Problem
from nnimgr.config.v1 import convert, is_v1

__all__ = ["Field", "NniFile"]


class Field(NamedTuple):
    """Field of a configuration file. ``path``: the field's path as the user wrote it.

    ``name``: text that replaces the path in the list of differences, if any.
    """

    document: Document
    path: KeyPath
    value: Any
    name: str | None = None

    def problem(self, message: str = "") -> Problem:
        """Return an error at the field's place, with the field named as in the user's file."""
        found = self.document.in_own_words(self.document.problem(self.path, message))
        return found if self.name is None else replace(found, field=self.name)

    def inner(self, *path: str | int) -> Field | None:
        """Return the field at ``path`` inside this field, or None if it is missing or empty."""
        found = Field(self.document, self.path, self.value)
        for part in path:
            if isinstance(part, int) or not isinstance(found.value, Mapping):
                if not (isinstance(found.value, list) and isinstance(part, int) and part < len(found.value)):
                    return None
                key: Any = part
            else:
                wanted = match_key(part)
                key = next((key for key in found.value if match_key(str(key)) == wanted), None)
                if key is None:
                    return None
            written = key if type(key) is int else str(key)
            found = Field(self.document, (*found.path, written), found.value[key])
        return None if found.value is None else found

    def items(self) -> Iterator[Field]:
        """Yield the items of this field's list. Yield nothing if its value is not a list."""
        for number in range(len(self.value) if isinstance(self.value, list) else 0):
            entry = self.inner(number)
            if entry is not None:
                yield entry


class NniFile:
    """Configuration file. ``first``: its whole content if it is in NNI's first format, otherwise None.

    Raise ConfigError if the file is neither YAML nor JSON.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        document = read_document(path)
        self.first = Field(document, (), document.value) if is_v1(document.value) else None
        if self.first is not None:
            document = convert(document, partly=True)
        self._top = Field(document, (), document.value)

    def field(self, *path: str | int) -> Field | None:
        """Return the field at this path of NNI's second format, or None if it is missing or empty."""
        return self._top.inner(*path)

    def of_first(self, *path: str | int) -> Field | None:
        """Return the field at this path of NNI's first format, or None if the file does not have it."""
        return None if self.first is None else self.first.inner(*path)

    def missing(self, name: str) -> Field:
        """Return a placeholder for a field that the file does not have.

        Problems of the placeholder are shown as problems of the whole file.
        """
        return Field(self._top.document, (), None, f"{name} (not given)")

    def algorithm(self, role: str) -> Field | None:
        """Return the field of the tuner or the assessor. An advisor counts as the tuner."""
        found = self.field(role)
        if found is None and role == "tuner":
            found = self.field("advisor")
        return found if found is not None and isinstance(found.value, Mapping) else None

    def members(self) -> Iterator[Field]:
        """Yield the fields of the training services: several in NNI's hybrid mode, otherwise one."""
        service = self.field("trainingService")
        if service is None:
            return
        for each in service.items() if isinstance(service.value, list) else [service]:
            if each.inner("platform") is not None:
                yield each

    def platform(self, *names: str) -> Iterator[Field]:
        """Yield the training services whose platform is one of these names."""
        for member in self.members():
            named = member.inner("platform")
            if named is not None and named.value in names:
                yield member

    def parameters(self) -> Iterator[Field]:
        """Yield the parameters of the search space, which may be in another file."""
        space = self._search_space()
        if space is not None and isinstance(space.value, Mapping):
            for name, spec in space.value.items():
                path = (*space.path, name if type(name) is int else str(name))
                yield Field(space.document, path, spec)

    def _search_space(self) -> Field | None:
        file = self.field("searchSpaceFile")
        if file is None:
            return self.field("searchSpace")
        try:
            document = read_document(self.path.parent / Path(str(file.value)).expanduser())
        except (ConfigError, RuntimeError):  # the error is reported when the file is loaded
            return None
        return Field(document, (), document.value)
