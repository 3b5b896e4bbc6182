"""Conversion of the keys in a file to the fields of a model, level by level.

Keys match as in NNI: without regard to case and ``_``. Null values are dropped, and paths and references are
resolved. Errors are collected instead of raised, so that a user sees all of them at once.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args, get_origin

from pydantic import BaseModel, SecretStr, ValidationError
from pydantic.alias_generators import to_camel

from nnimgr.builtins import meant
from nnimgr.config.document import Document, KeyPath, number_hint
from nnimgr.config.problems import Problem, dotted
from nnimgr.config.references import ReferenceUnresolved, anchor, has_reference, resolve_secrets
from nnimgr.spelling import nearest
from nnimgr.validation import allowed, wanted

__all__ = ["Reading", "check_references", "match_key", "plain", "parse", "validate"]

_NUMBERS = ("int_type", "int_from_float", "float_type")  # pydantic's names of errors
_DIGITS = re.compile(r"[-+]?\d+(\.\d*)?")
# Fields that every experiment needs -> what to write, for a user's first one.
_EXAMPLES = {
    "trialCommand": "trialCommand: python3 trial.py",
    "trialConcurrency": "trialConcurrency: 2",
    "tuner": "tuner: {name: TPE}",
}
_NAMED = ("tuner", "assessor", "scheduler")  # fields with mappings that may have only a name
_NO_MAPPING = ("model_type", "model_attributes_type")  # pydantic's names of errors
_QUOTED = re.compile(r"'(\w+)")  # matches quoted field names in the messages of nnimgr's models
# Words of NNI 1 and of other programs, in the form of ``match_key`` -> field.
_OTHER_WORDS = {
    **dict.fromkeys(("builtintunername", "builtinassessorname", "builtinadvisorname"), "name"),
    **dict.fromkeys(("trials", "ntrials", "numtrials", "numsamples", "maxevals"), "maxTrialNumber"),
    **dict.fromkeys(("njobs", "parallelism", "maxconcurrent", "workers"), "trialConcurrency"),
    **dict.fromkeys(("timeout", "hours"), "maxExperimentDuration"),
    **dict.fromkeys(("direction", "mode"), "goal"),
    **dict.fromkeys(("gpus", "gpu"), "trialGpuNumber"),
    **dict.fromkeys(("cpus", "cpu"), "trialCpuNumber"),
    **dict.fromkeys(("args", "arguments"), "classArgs"),
}


@dataclass(slots=True)
class Reading:
    """State of the reading of a configuration: its source, and the errors and warnings found so far.

    ``base``: directory for relative paths. None if the configuration is in its stored form, whose paths and
    references are used without changes.
    """

    document: Document | None = None
    base: Path | None = None
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    _written: dict[KeyPath, KeyPath] = field(default_factory=dict)

    def fault(self, path: KeyPath, message: str, **details: Any) -> None:
        self.problems.append(self.problem(path, message, **details))

    def warn(self, path: KeyPath, message: str, **details: Any) -> None:
        self.warnings.append(self.problem(path, message, **details))

    def problem(self, path: KeyPath, message: str, **details: Any) -> Problem:
        """Return an error about the field at ``path``, with the place where the user wrote the field."""
        details.setdefault("field", dotted(path))
        if self.document is None:
            return Problem(message=message, **details)
        return self.document.problem(self.written(path), message, **details)

    def written(self, path: KeyPath) -> KeyPath:
        """Return ``path`` with its keys as the user wrote them."""
        for length in range(len(path), 0, -1):
            if path[:length] in self._written:
                return self._written[path[:length]] + path[length:]
        return path

    def note_origin(self, path: KeyPath, origin: KeyPath) -> None:
        """Record that the value at ``path`` was built from ``origin``, where its errors are to be shown."""
        self._written[path] = self.written(origin)

    def note_spelling(self, path: KeyPath, key: str) -> None:
        self._written[path] = (*self.written(path[:-1]), key)


def match_key(key: str) -> str:
    """Return a key in lower case without ``_``, so that all spellings that NNI accepts are equal."""
    return key.lower().replace("_", "")


def parse(reading: Reading, raw: Any, model: type[BaseModel], path: KeyPath = ()) -> dict[str, Any] | None:
    """Return the values of ``raw`` by the names of the model's fields, not validated yet.

    Report unknown fields. Report an error and return None if ``raw`` is not a mapping.
    """
    if not isinstance(raw, Mapping):
        reading.fault(path, f"must be a mapping of keys to values, not {_name(raw)}")
        return None
    fields = {match_key(alias): (alias, kind) for alias, kind in _fields(model)}
    found: dict[str, Any] = {}
    spelled: dict[str, str] = {}
    for key, value in raw.items():
        alias, kind = fields.get(match_key(str(key)), (None, None))
        if alias is None:
            known = [known_alias for known_alias, _ in fields.values()]
            _report_unknown(reading, raw, path, str(key), known)
            continue
        if alias in spelled:
            reading.note_spelling((*path, alias), str(key))
            reading.fault((*path, alias), f"given twice, as {spelled[alias]!r} and as {key!r}")
            continue
        spelled[alias] = str(key)
        reading.note_spelling((*path, alias), str(key))
        if value is not None:
            found[alias] = _value(reading, value, kind, (*path, alias))
    return found


def _report_unknown(
    reading: Reading, raw: Mapping[str, Any], path: KeyPath, key: str, known: Sequence[str]
) -> None:
    """Report a key that no field of the model has. ``known``: the fields of the model."""
    role = "tuner" if path == ("advisor",) else str(path[0]) if path else ""
    algorithm = meant(role, raw) if "classArgs" in known else None
    if algorithm is not None and key in algorithm.arguments:
        sentence = f"is an argument of {algorithm.name}: write it under classArgs"
        reading.fault((*path, key), f"{sentence}, as in classArgs: {{{key}: {raw[key]!r:.40}}}")
        return
    word = _OTHER_WORDS.get(match_key(key))
    likely = word if word in known else nearest(key, known)
    sentence = "unknown field"
    if likely is None and "classArgs" in known:
        sentence += "; arguments of the algorithm go under classArgs"
    reading.fault((*path, key), sentence, nearest=likely, valid=() if likely else known)


def validate(reading: Reading, model: type[BaseModel], values: Mapping[str, Any], path: KeyPath = ()) -> Any:
    """Return a model built from the values. If there are errors, report them and return None."""
    try:
        return model.model_validate(dict(values))
    except ValidationError as error:
        for fault in error.errors(include_url=False):
            where: KeyPath = (*path, *fault["loc"])
            if fault["type"] == "default_factory_not_called":
                continue  # the field's default depends on fields that are invalid
            if any(known.field == dotted(where) for known in reading.problems):
                continue  # an error of this field is reported already
            if fault["type"] == "missing" and any(known.nearest == where[-1] for known in reading.problems):
                continue  # the field is given, but its key is misspelled, which is reported already
            message, details = _sentence(fault)
            if fault["type"] == "missing" and (example := _EXAMPLES.get(dotted(where))) is not None:
                message += f"; for example: {example}"
            if fault["type"] in _NO_MAPPING and isinstance(fault["input"], str) and where[-1] in _NAMED:
                message += f"; write {{name: {fault['input']}}}"
            if not fault["loc"]:  # an error about several fields: use the first field that is given
                named = next((name for name in _QUOTED.findall(message) if name in values), None)
                where = path if named is None else (*path, named)
            reading.fault(where, message, **details)
        return None


def plain(reading: Reading, value: Any, path: KeyPath) -> Any:
    """Return the value of a field without a model, such as ``classArgs``, in JSON's types.

    Report values that JSON cannot express.
    """
    if isinstance(value, Mapping):
        found = {}
        for key, item in value.items():
            text = key if isinstance(key, str) else _key_text(key)
            if text is None:
                reading.fault((*path, str(key)), f"the key {key!r} must be text; put it in quotes")
                continue
            if text is not key:
                reading.warn((*path, key if type(key) is int else text), f"the key {key!r} is read as text")
            found[text] = plain(reading, item, (*path, text))
        return found
    if isinstance(value, list | tuple):
        return [plain(reading, item, (*path, index)) for index, item in enumerate(value)]
    if isinstance(value, float) and not math.isfinite(value):
        reading.fault(path, f"{value} is not allowed here: only finite numbers can be stored as JSON")
    elif value is not None and not isinstance(value, str | int | float):
        reading.fault(path, f"is read by YAML as {_name(value)}; put it in quotes if it is text")
    return value


def _value(reading: Reading, value: Any, kind: Any, path: KeyPath) -> Any:
    if dict in (kinds := set(_flat(kind))) and isinstance(value, Mapping):
        return _mapping(reading, value, kind, path)
    models = [part for part in kinds if isinstance(part, type) and issubclass(part, BaseModel)]
    if models and isinstance(value, Mapping):
        return parse(reading, value, models[0], path)
    if dict in kinds and not models and isinstance(value, list) and list in kinds:
        return [plain(reading, item, (*path, index)) for index, item in enumerate(value)]
    if models and isinstance(value, list) and list in kinds:
        return [parse(reading, item, models[0], (*path, index)) for index, item in enumerate(value)]
    if isinstance(value, str):
        return _text(reading, value, kinds, path)
    if SecretStr in kinds and not isinstance(value, SecretStr):
        # The value is not shown, because it may be a secret.
        reading.fault(path, "must be text; put it in quotes")
        return None
    return value


def _mapping(reading: Reading, value: Mapping[Any, Any], kind: Any, path: KeyPath) -> dict[str, Any]:
    """Return the value of a field that is a mapping with any keys.

    Its values may be models, texts that may be secrets, or anything else that JSON can express.
    """
    inner = _items_of(kind)
    if not any(issubclass(part, BaseModel | SecretStr) for part in _flat(inner) if isinstance(part, type)):
        return plain(reading, value, path)  # type: ignore[no-any-return]
    found = {}
    for key, item in value.items():
        if not isinstance(key, str):
            reading.fault((*path, str(key)), f"the key {key!r} must be text; put it in quotes")
        elif item is not None:
            found[key] = _value(reading, item, inner, (*path, key))
    return found


def _text(reading: Reading, value: str, kinds: set[Any], path: KeyPath) -> Any:
    """Return the value of a text field: a reference is replaced by its target, and a path is made absolute.

    A reference in a field for a secret is only checked, so that no secret is stored.
    """
    secret = SecretStr in kinds
    if "\0" in value:
        reading.fault(path, "must not hold the character NUL")
        return value
    if reading.base is not None and has_reference(value):
        if not secret and path[-1] in ("trialCommand", "command"):
            reading.fault(
                path,
                "references are not replaced in the trial command: trials inherit your environment, "
                "so write $NAME instead of ${env:NAME}",
            )
            return value
        try:
            resolved = resolve_secrets(value, reading.environ, reading.base)
            value = anchor(value, reading.base) if secret else resolved
        except ReferenceUnresolved as error:
            reading.fault(path, str(error))
            return value
    if secret:
        return SecretStr(value)
    if Path in kinds:
        if reading.base is None:
            return Path(value)
        return Path(os.path.realpath(reading.base / os.path.expanduser(value)))
    return value


def check_references(reading: Reading, value: Any, path: KeyPath) -> Any:
    """Report each reference that cannot be resolved now. Return the value with its references kept.

    The value is that of a field without a model, such as ``classArgs``.
    """
    if reading.base is None:
        return value
    if isinstance(value, Mapping):
        return {key: check_references(reading, item, (*path, key)) for key, item in value.items()}
    if isinstance(value, list):
        return [check_references(reading, item, (*path, index)) for index, item in enumerate(value)]
    if not has_reference(value):
        return value
    try:
        resolve_secrets(value, reading.environ, reading.base)
    except ReferenceUnresolved as error:
        reading.fault(path, str(error))
    return anchor(value, reading.base)


def _fields(model: type[BaseModel]) -> Iterator[tuple[str, Any]]:
    for name, info in model.model_fields.items():
        if info.exclude:
            continue  # the field is set by nnimgr, not by users
        yield info.alias or to_camel(name), info.annotation


def _flat(kind: Any) -> Iterator[Any]:
    """Yield the classes that occur in a type annotation."""
    arguments = get_args(kind)
    origin = getattr(kind, "__origin__", None)
    if origin in (dict, list):
        yield origin
    elif not arguments:
        yield kind
    if origin is not dict:
        for argument in arguments:
            yield from _flat(argument)


def _items_of(kind: Any) -> Any:
    """Return the type annotation of a mapping's values, from the annotation of the mapping."""
    arguments = get_args(kind)
    if get_origin(kind) is dict:
        return arguments[1]
    return next((found for part in arguments if (found := _items_of(part)) is not None), None)


def _sentence(fault: Any) -> tuple[str, dict[str, Any]]:
    """Return a pydantic error as one sentence, with details such as the valid values."""
    kind, given, context = fault["type"], fault.get("input"), fault.get("ctx", {})
    if (valid := allowed(kind, context)) is not None:
        likely = nearest(given, valid) if isinstance(given, str) else None
        shown = f"{given}".lower() if isinstance(given, bool) else repr(given)  # YAML reads no as false
        return f"unknown value {shown}", {"valid": valid, "nearest": likely}
    if kind == "value_error":
        return str(context["error"]) + number_hint(given), {}
    if kind == "missing":
        return "required, but not given", {}
    if kind == "string_too_short":
        return "must not be empty", {}
    if (must_be := wanted(kind, context)) is None:
        return str(fault["msg"]), {}
    if kind in _NUMBERS and isinstance(given, str) and _DIGITS.fullmatch(given):
        return f'must be {must_be}, not the text "{given}": remove the quotes', {}
    return f"must be {must_be}, not {_shown(given)}{number_hint(given)}", {}


def _shown(value: Any) -> str:
    return repr(value) if isinstance(value, str | int | float) else _name(value)


def _name(value: Any) -> str:
    if value is None:
        return "empty"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    names = {"str": "text", "int": "a number", "float": "a number", "bool": "true or false"}
    kind = type(value).__name__
    return names.get(kind, f"a {kind}")


def _key_text(key: Any) -> str | None:
    """Return a mapping's key as text, as NNI writes it in JSON. Return None if JSON cannot express it."""
    if isinstance(key, bool):
        return "true" if key else "false"
    if key is None:
        return "null"
    return str(key) if isinstance(key, int | float) else None
