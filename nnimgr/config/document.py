"""Reading of a YAML or JSON file as plain values, with the line and column of each value.

YAML is read as by ``yaml.safe_load``, but duplicate keys and documents that grow too large through aliases
are refused. JSON is read as JSON, including tabs and ``1e-5``.
"""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import re
import stat
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any

import yaml
from yaml.reader import ReaderError

from nnimgr.config.problems import ConfigError, Problem, dotted
from nnimgr.config.yaml_faults import sentence_of
from nnimgr.spelling import nearest

__all__ = ["Document", "KeyPath", "number_hint", "number_hint_at", "read_document", "to_yaml"]

KeyPath = tuple[str | int, ...]

_MOST_BYTES = 16 << 20
_MOST_NODES = 200_000
_DEEPEST = 100
_EXPONENT = re.compile(r"[-+]?\d+[eE][-+]?\d+|[-+]?\d+\.\d*[eE]\d+")


class Document:
    """Content of one file as plain values, with the line and column of every path in it.

    ``first_format``: the file is in NNI's first format, and was converted.
    """

    first_format = False

    def __init__(self, file: Path | None, text: str) -> None:
        """Parse ``text``, the content of ``file``. ``file`` is None if the text is not from a file."""
        self.file = file
        self.warnings: list[Problem] = []  # found while the document was read
        self._text = text
        self._places: dict[KeyPath, tuple[int, int]] | None = None
        self.value = self._parse()

    def problem(
        self,
        path: Sequence[str | int],
        message: str,
        *,
        field: str | None = None,
        valid: Sequence[str] = (),
        nearest: str | None = None,
    ) -> Problem:
        """Return an error at ``path``, with the line of the path or of its nearest parent in the file."""
        line, column = self._place(tuple(path))
        return Problem(
            message=message,
            field=dotted(path) if field is None else field,
            file=self.file,
            line=line,
            column=column,
            valid=tuple(valid),
            nearest=nearest,
        )

    def in_own_words(self, problem: Problem) -> Problem:
        """Return the error with its field named as in the user's file."""
        return problem

    def with_service(self, service: dict[str, Any]) -> str:
        """Return the section ``trainingService`` with this value as YAML, to show to the user."""
        return to_yaml({"trainingService": service})

    def _place(self, path: KeyPath) -> tuple[int | None, int | None]:
        if self._places is None:
            self._places = self._json_places()
        for length in range(len(path), 0, -1):
            if path[:length] in self._places:
                return self._places[path[:length]]
        return (None, None) if path else self._places.get((), (None, None))

    def _parse(self) -> Any:
        fault: ValueError | RecursionError | None = None
        if self._text.lstrip()[:1] in ("{", "["):
            try:
                return json.loads(self._text, object_pairs_hook=_unique, parse_constant=_no_constant)
            except _Repeated:
                # In JSON, a tab outside of strings is only white space, but YAML refuses tabs.
                self._text = self._text.replace("\t", " ")
            except (ValueError, RecursionError) as error:
                fault = error
        reader = _Reader(self.file, self._text)
        try:
            value = reader.read()
        except ConfigError:
            if isinstance(fault, json.JSONDecodeError) and self._is_json:
                sentence = f"not JSON: {fault.msg[0].lower()}{fault.msg[1:]}"
                raise ConfigError(
                    [Problem(message=sentence, file=self.file, line=fault.lineno, column=fault.colno)]
                ) from fault
            raise
        self._places = reader.places
        return value

    @property
    def _is_json(self) -> bool:
        return self.file is not None and self.file.suffix.lower() == ".json"

    def _json_places(self) -> dict[KeyPath, tuple[int, int]]:
        reader = _Reader(self.file, self._text.replace("\t", " "))
        try:
            reader.read()
        except ConfigError:
            return {}  # JSON that YAML cannot read, which is rare; its problems have a field but no line
        return reader.places


class _Repeated(Exception):
    pass


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _Repeated
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(name)


class _Reader:
    """Reader of a YAML text in one pass. It finds the text's value, and the line and column of every path."""

    def __init__(self, file: Path | None, text: str) -> None:
        self.places: dict[KeyPath, tuple[int, int]] = {}
        self._file = file
        self._text = text
        self._nodes = 0
        self._checked: set[int] = set()

    def read(self) -> Any:
        try:
            loader = yaml.SafeLoader(self._text)
        except ReaderError as error:
            before = self._text[: error.position]
            raise ConfigError(
                [
                    Problem(
                        message=f"the character U+{error.character:04X} is not allowed in YAML",
                        file=self._file,
                        line=before.count("\n") + 1,
                        column=len(before) - before.rfind("\n"),
                    )
                ]
            ) from error
        try:
            node = loader.get_single_node()
            return None if node is None else self._value(loader, node, ())
        except yaml.MarkedYAMLError as error:
            if self._file is not None and self._file.suffix == ".py":
                message = "this is a Python program, and not a file with YAML or JSON"
                raise ConfigError([Problem(message=message, file=self._file)]) from error
            raise self._error(*sentence_of(error, self._text)) from error
        except RecursionError as error:
            raise ConfigError([Problem(message="nested too deeply", file=self._file)]) from error
        finally:
            loader.dispose()

    def _value(self, loader: yaml.SafeLoader, node: yaml.Node, path: KeyPath) -> Any:
        self._nodes += 1
        if self._nodes > _MOST_NODES:
            raise self._error(
                f"has more than {_MOST_NODES:,} values once its aliases are followed", node.start_mark
            )
        if len(path) > _DEEPEST:
            raise self._error("is nested too deeply, or an alias is inside its own value", node.start_mark)
        self.places.setdefault(path, (node.start_mark.line + 1, node.start_mark.column + 1))
        if isinstance(node, yaml.MappingNode) and node.tag == "tag:yaml.org,2002:map":
            return self._mapping(loader, node, path)
        if isinstance(node, yaml.SequenceNode) and node.tag == "tag:yaml.org,2002:seq":
            return [self._value(loader, item, (*path, index)) for index, item in enumerate(node.value)]
        if node.tag == "tag:yaml.org,2002:int" and ":" in node.value:
            return node.value  # YAML 1.1 reads 2:4 as a number with the base 60
        try:
            return loader.construct_object(node, deep=True)
        except ValueError as error:  # text that looks like an invalid date; PyYAML does not report it
            raise self._error(f"cannot be read: {error}", node.start_mark) from error

    def _mapping(self, loader: yaml.SafeLoader, node: yaml.MappingNode, path: KeyPath) -> dict[Any, Any]:
        if id(node) not in self._checked:  # only at the first visit: flattening leaves duplicate keys
            self._checked.add(id(node))
            self._refuse_duplicates(loader, node)
            loader.flatten_mapping(node)
        found = {}
        for key_node, value_node in node.value:
            key = self._key(loader, key_node)
            inner = (*path, key if isinstance(key, int) and not isinstance(key, bool) else str(key))
            self.places[inner] = (key_node.start_mark.line + 1, key_node.start_mark.column + 1)
            found[key] = self._value(loader, value_node, inner)
        return found

    def _refuse_duplicates(self, loader: yaml.SafeLoader, node: yaml.MappingNode) -> None:
        seen: dict[Hashable, int] = {}
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue
            key = self._key(loader, key_node)
            if key in seen:
                raise self._error(
                    f"the key {key!r} is given twice (first in line {seen[key]})", key_node.start_mark
                )
            seen[key] = key_node.start_mark.line + 1

    def _key(self, loader: yaml.SafeLoader, node: yaml.Node) -> Hashable:
        key = loader.construct_object(node, deep=True)
        if not isinstance(key, Hashable):
            hint = '; put an expression in quotes: "{{ ... }}"' if isinstance(key, dict) else ""
            raise self._error(f"a list or a mapping cannot be a key{hint}", node.start_mark)
        return key

    def _error(self, message: str, mark: yaml.Mark | None) -> ConfigError:
        line, column = (None, None) if mark is None else (mark.line + 1, mark.column + 1)
        return ConfigError([Problem(message=message, file=self._file, line=line, column=column)])


def to_yaml(value: Any) -> str:
    """Return plain values as YAML text. The order of the keys is kept."""
    text: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=True)
    return text.rstrip()


def read_document(file: Path) -> Document:
    """Read and parse a YAML or JSON file. Raise ConfigError."""
    try:
        text = io.TextIOWrapper(io.BytesIO(_content(file)), encoding="utf-8-sig").read()
    except FileNotFoundError:
        names = [path.name for path in file.parent.glob("*.*")] if file.parent.is_dir() else []
        near = nearest(file.name, sorted(names))
        raise ConfigError([Problem(message="this file does not exist", file=file, nearest=near)]) from None
    except IsADirectoryError:
        raise ConfigError([Problem(message=f"this is a folder{_file_in(file)}", file=file)]) from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise ConfigError([Problem(message="this is not UTF-8 text", file=file, line=line)]) from error
    except OSError as error:
        raise ConfigError([Problem(message=f"cannot be read: {error.strerror}", file=file)]) from error
    return Document(file, text)


def _file_in(folder: Path) -> str:
    """Return the end of a sentence about a folder. If there is one YAML file in it, suggest this file."""
    with contextlib.suppress(OSError):
        found = [path for path in folder.iterdir() if path.suffix in (".yml", ".yaml") and path.is_file()]
        if len(found) == 1:
            return f"; did you mean {found[0]}?"
    return ", not a file"


def _content(file: Path) -> bytes:
    """Return the bytes of a file. Raise OSError if it cannot be read, is too large, never ends or blocks."""
    with open(file, "rb", buffering=0) as stream:
        if stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            os.set_blocking(stream.fileno(), False)
        content = bytearray()
        while part := os.read(stream.fileno(), _MOST_BYTES):
            content += part
            if len(content) > _MOST_BYTES:
                raise OSError(errno.EFBIG, f"it has more than {_MOST_BYTES:,} bytes")
    return bytes(content)


def number_hint(value: Any) -> str:
    """Return a hint if a text looks like a number that YAML reads as text, otherwise "".

    YAML 1.1 needs a point and a sign in an exponent: ``1.0e-5``, not ``1e-5``.
    """
    if isinstance(value, str) and _EXPONENT.fullmatch(value):
        return f"; YAML reads {value} as text, write it with point and sign: {_with_point(value)}"
    return ""


def number_hint_at(value: Any, path: Sequence[str | int]) -> str:
    """Return a hint if the value at ``path`` inside ``value`` looks like a number that YAML reads as text.

    Otherwise return "".
    """
    try:
        for part in path:
            value = value[part]
    except (LookupError, TypeError):
        return ""
    return number_hint(value)


def _with_point(text: str) -> str:
    digits, exponent = re.split("[eE]", text)
    sign = "" if exponent[0] in "+-" else "+"
    return f"{digits if '.' in digits else digits + '.0'}e{sign}{exponent}"
