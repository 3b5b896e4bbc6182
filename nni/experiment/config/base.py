"""Base of the configuration classes. Their fields have types, can be changed, and are named as in NNI.

In Python, field names are in snake_case. In dicts and files, upper case and underscores in names are ignored.
"""

from __future__ import annotations

import copy
import dataclasses
import importlib
import os
import types
import typing
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from nni.experiment.config.utils import (
    PathLike,
    camel_case,
    case_insensitive,
    get_base_path,
    is_missing,
    resolve_path,
)

__all__ = ["ConfigBase", "InvalidConfig", "PathLike"]

_Config = TypeVar("_Config", bound="ConfigBase")


class InvalidConfig(AttributeError, ValueError):
    """Error: a field of a configuration object is unknown, missing or wrong.

    It is an AttributeError and a ValueError, because NNI raises one or the other.
    """


class ConfigBase:
    """Base of the configuration classes. A subclass is declared with
    ``@dataclasses.dataclass(init=False)``.

    ``_model`` is the path, "module:Class", of the class with which the server reads this section. Fields of
    that class can be set even if the subclass does not declare them.
    """

    _model: ClassVar[str] = ""

    def __init__(self, **kwargs: Any) -> None:
        """Set the fields that are passed by name. A field that has no default and is not passed stays
        unset.

        Raise InvalidConfig for a name that is not a field.
        """
        given = {case_insensitive(name): value for name, value in kwargs.items()}
        for name, field in _fields(self).items():
            value = given.pop(case_insensitive(name), _default(field))
            setattr(self, name, _nested(value, _hints(self)[name]))
        for name, value in given.items():
            known = _more_names(type(self)._model).get(name)
            if known is None:
                names = ", ".join(key for key in kwargs if case_insensitive(key) in given)
                raise InvalidConfig(f"{type(self).__name__} does not have field(s) {names}")
            setattr(self, known, value)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set a field. Raise InvalidConfig for a name that is not a field, which is most often a
        misspelling.
        """
        if name not in _fields(self) and not name.startswith("_"):
            more = _more_names(type(self)._model)
            if name not in more.values():
                from difflib import get_close_matches

                near = get_close_matches(name, [*_fields(self), *more.values()], n=1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                raise InvalidConfig(f"{type(self).__name__} does not have an attribute {name!r}{hint}")
        object.__setattr__(self, name, value)

    @classmethod
    def load(cls: type[_Config], path: PathLike) -> _Config:
        """Return the configuration in a YAML or JSON file.

        Relative paths in it start from the file's directory. Raise InvalidConfig if a field is wrong, and
        nnimgr's ConfigError if the file cannot be read.
        """
        from nnimgr.config.document import read_document

        file = Path(os.path.expanduser(path))
        found = read_document(file).value
        if not isinstance(found, dict):
            raise InvalidConfig(f"{file}: the file must hold a mapping of fields to values")
        config = cls(**found)
        config._resolve_paths(Path(os.path.abspath(file)).parent)
        return config

    def json(self) -> dict[str, Any]:
        """Return the checked configuration as plain JSON values with camelCase names, without unset
        fields.
        """
        return typing.cast(dict[str, Any], _plain(self.canonical_copy()))

    def canonical_copy(self: _Config) -> _Config:
        """Return a checked copy of the configuration in canonical form.

        In this form, paths are absolute, and a value that can be written in several ways is written in one
        way. Raise InvalidConfig if a field is missing or wrong.
        """
        found = copy.deepcopy(self)
        try:
            found._canonicalize([])
            found._validate_canonical()
        except InvalidConfig:
            raise
        except (AssertionError, AttributeError, TypeError, ValueError) as error:
            reason = str(error) or f"{type(error).__name__} without a message"
            raise InvalidConfig(f"{type(self).__name__}: {reason}") from error
        return found

    def validate(self) -> None:
        """Raise InvalidConfig if a field of this configuration is missing or wrong."""
        self.canonical_copy()

    def _canonicalize(self, parents: list[Any]) -> None:
        """Change all values to canonical form (see ``canonical_copy``). Subclasses extend this method.

        ``parents``: the configuration objects that contain this one, nearest first.
        """
        self._resolve_paths(get_base_path(), deep=False)
        for inner in self._sections():
            inner._canonicalize([self, *parents])

    def _validate_canonical(self) -> None:
        """Raise an error if a field is missing or wrong. All values are in canonical form already.

        Subclasses extend this method.
        """
        for name, hint in _hints(self).items():
            value = getattr(self, name)
            if is_missing(value):
                raise InvalidConfig(f"{type(self).__name__}: {name} is not set")
            if not _fits(value, hint):
                shown = hint.__name__ if isinstance(hint, type) else str(hint).replace("typing.", "")
                raise InvalidConfig(f"{type(self).__name__}: type of {name} ({value!r}) is not {shown}")
        for inner in self._sections():
            inner._validate_canonical()

    def _resolve_paths(self, base: Path, *, deep: bool = True) -> None:
        for name, hint in _hints(self).items():
            value = getattr(self, name)
            if isinstance(value, (str, Path)) and _is_path(hint):
                setattr(self, name, resolve_path(value, base))
        for inner in self._sections() if deep else ():
            inner._resolve_paths(base)

    def _sections(self) -> Iterator[ConfigBase]:
        """Yield the fields' values that are configuration objects, including those in lists."""
        for name in _fields(self):
            value = getattr(self, name)
            for item in value if isinstance(value, list) else [value]:
                if isinstance(item, ConfigBase):
                    yield item


def _fields(config: ConfigBase) -> dict[str, dataclasses.Field[Any]]:
    kind: Any = type(config)
    return _fields_of(kind)


def _hints(config: ConfigBase) -> dict[str, Any]:
    kind: Any = type(config)
    return _hints_of(kind)


@cache
def _fields_of(kind: Any) -> dict[str, dataclasses.Field[Any]]:
    if not dataclasses.is_dataclass(kind):
        return {}
    return {field.name: field for field in dataclasses.fields(kind)}


@cache
def _hints_of(kind: Any) -> dict[str, Any]:
    found = typing.get_type_hints(kind)
    return {name: found[name] for name in _fields_of(kind)}


@cache
def _more_names(model: str) -> dict[str, str]:
    """Return the field names of the class ``model`` ("module:Class"): name in lower case without underscores
    -> name.
    """
    if not model:
        return {}
    module, _, name = model.partition(":")
    names = getattr(importlib.import_module(module), name).model_fields
    return {case_insensitive(field): field for field in names}


def _default(field: dataclasses.Field[Any]) -> Any:
    factory: Any = field.default_factory
    return field.default if is_missing(factory) else factory()


def _nested(value: Any, hint: Any) -> Any:
    """Convert a dict, or each dict in a list, to the configuration class that is the declared type of its
    field.

    Return the value unchanged if the type allows plain dicts, or does not name exactly one configuration
    class.
    """
    options = _options(hint)
    if isinstance(value, dict):
        kinds = [kind for kind in options if isinstance(kind, type) and issubclass(kind, ConfigBase)]
        takes_dicts = Any in options or any((typing.get_origin(kind) or kind) is dict for kind in options)
        return kinds[0](**value) if len(kinds) == 1 and not takes_dicts else value
    if isinstance(value, list):
        lists = [kind for kind in options if typing.get_origin(kind) is list]
        if len(lists) == 1:
            return [_nested(item, typing.get_args(lists[0])[0]) for item in value]
    return value


def _options(hint: Any) -> tuple[Any, ...]:
    """Return the types that a declared type allows: the members of a union, or only the type itself."""
    return typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)


def _is_path(hint: Any) -> bool:
    return Path in _options(hint)


def _fits(value: Any, hint: Any) -> bool:
    """Return whether a value has the declared type ``hint``. An integer is also accepted as a float."""
    if hint is Any:
        return True
    arguments = typing.get_args(hint)
    match typing.get_origin(hint):
        case typing.Union | types.UnionType:
            return any(_fits(value, option) for option in arguments)
        case typing.Literal:
            return value in arguments
        case origin if origin is list:
            return isinstance(value, list) and all(_fits(item, arguments[0]) for item in value)
        case origin if origin is dict:
            return isinstance(value, dict)
    if hint is float:
        return isinstance(value, (int, float))
    return isinstance(value, hint) if isinstance(hint, type) else True


def _plain(value: Any) -> Any:
    """Convert a configuration, or a value in it, to plain JSON values.

    Omit configuration fields with the value None. Plain dicts keep all their keys.
    """
    if isinstance(value, ConfigBase):
        return {camel_case(k): _plain(v) for k, v in vars(value).items() if v is not None and k[0] != "_"}
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value
