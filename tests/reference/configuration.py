"""Generator of ``docs/reference/configuration.md``: one table per model, described in ``fields.yml``."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, SecretStr
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from nnimgr.config.model import SHARED_FIELDS, ExperimentConfig
from tests.reference.markdown import Table, code, page
from training_services import registry

__all__ = ["DESCRIPTIONS", "Descriptions", "described", "fields", "models", "render"]

DESCRIPTIONS = Path(__file__).parents[2] / "docs" / "reference" / "fields.yml"
Descriptions = Mapping[str, Mapping[str, Mapping[str, Any]]]  # by class and field

_VALIDATED = {  # function that validates a field -> the type as a user writes it
    "_duration": "duration",
    "_size": "memory",
    "finite": "number",
    "_improvement": "number, at least 0",
    "_failure_value": "number, or mapping to numbers",
    "_gpu_number": "number or expression",
    "_cpu_number": "number or expression",
    "memory_size": "memory or expression",
    "_processes": "whole number, `auto`, `cpu` or `gpu`",
    "_memory": "memory, expression or [GrowingMemory](#growingmemory)",
    "parse_gpu_number": "number",
    "parse_cpu_number": "number",
    "parse_gpu_indices": "list of whole numbers",
    "cpu_quantity": "Kubernetes quantity",
    "memory_quantity": "Kubernetes quantity",
    "_environment_value": "text or [EnvironmentSource](#environmentsource)",
}
_PLAIN = {
    str: "text",
    int: "whole number",
    float: "number",
    bool: "true or false",
    Path: "path",
    SecretStr: "secret text",
    Any: "any value",
    BaseModel: "mapping, or list of mappings",
}
_PLURALS = {"text": "texts", "whole number": "whole numbers", "mapping to any value": "mappings"}
_BOUNDS = (("gt", "above"), ("ge", "at least"), ("lt", "below"), ("le", "at most"))
_ABOUT = f"""\
The fields of `exp.yml`. Keys also match in other spellings, as in NNI: case and `_` do not matter.
For an introduction see [Your first experiment](../tutorials/first-experiment.md).

- A *duration* is a whole number of seconds, or a number with `s`, `m`, `h` or `d`, such as `30m`.
- *Memory* is a whole number of MB, or a number with `b`, `kb`, `mb`, `gb` or `tb`, such as `4gb`.
- An *expression* is a text such as `"{{{{ 2 if layers > 8 else 1 }}}}"` over the trial's parameters. See
  [resources.md](../how-to/resources.md#different-needs).
- A relative *path* starts at the directory of the file.
- A *secret text* may be a reference, `${{env:NAME}}` or `${{file:PATH}}`.
  See [remote.md](../how-to/remote.md#secrets).
- The field `advisor` means the same as the field `tuner`.
  NNI's files use it for tuners that also decide the budget of trials.
- Each training service may also have these fields of the experiment:
  {", ".join(map(code, SHARED_FIELDS))}."""


def render() -> str:
    """Return the page.

    Raises:
        ValueError: A field has no description, or a description has no field.
    """
    descriptions: Descriptions = yaml.safe_load(DESCRIPTIONS.read_text(encoding="utf-8"))
    unused = {(owner, name) for owner, names in descriptions.items() for name in names}
    parts = [_ABOUT]
    for model, title in models():
        table = Table("field", "type", "default", "description", "example")
        for name, field in fields(model):
            owner, about = described(descriptions, model, name)
            unused.discard((owner, name))
            default = about.get("unset") or _default(field)
            example = code(about["example"]) if "example" in about else ""
            table.add(code(name), _type(field.annotation, field.metadata), default, about["about"], example)
        parts += [f"## {title}", str(table)]
    if unused:
        raise ValueError(f"{DESCRIPTIONS} describes fields that do not exist: {sorted(unused)}")
    return page("Configuration", *parts)


def models() -> Iterator[tuple[type[BaseModel], str]]:
    """Yield every model of a configuration once, with the title of its section."""
    roots: list[tuple[type[BaseModel], str]] = [(ExperimentConfig, "ExperimentConfig: the whole file")]
    for name, source in registry.sources().items():
        if source == "built in":
            roots.append((registry.config_class(name), f"trainingService with `platform: {name}`"))
    seen: set[type[BaseModel]] = set()
    for root, title in roots:
        todo = [root]
        while todo:
            model = todo.pop(0)
            if model not in seen:
                seen.add(model)
                yield model, title if model is root else model.__name__
                todo += [each for _, field in fields(model) for each in _models_in(field.annotation)]


def fields(model: type[BaseModel]) -> Iterator[tuple[str, FieldInfo]]:
    """Yield the fields that a user may write, under their names in a file."""
    for name, field in model.model_fields.items():
        if not field.exclude:
            yield field.alias or to_camel(name), field


def described(descriptions: Descriptions, model: type[BaseModel], name: str) -> tuple[str, Mapping[str, Any]]:
    """Return the name of the class that declares the field, and the field's description."""
    for owner in (base.__name__ for base in model.__mro__):
        if name in descriptions.get(owner, {}):
            return owner, descriptions[owner][name]
    raise ValueError(f"{DESCRIPTIONS} has no description of the field {name} of {model.__name__}")


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    """Return the models in an annotation, however deep, in their order."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel) and annotation is not BaseModel:
        return [annotation]
    return [model for argument in get_args(annotation) for model in _models_in(argument)]


def _type(annotation: Any, metadata: list[Any]) -> str:
    """Return the type in words, with the bounds of numbers."""
    for each in metadata:
        validator = getattr(getattr(each, "func", None), "__name__", "")
        if validator in _VALIDATED:
            return _VALIDATED[validator]
    bounds = [f"{word} {value}" for key, word in _BOUNDS for value in _bound(metadata, key)]
    return ", ".join([_bare_type(annotation), *bounds])


def _bound(metadata: list[Any], key: str) -> list[Any]:
    """Return the bounds of one kind; annotations may be nested, and the innermost one comes first."""
    flat = [item for each in metadata for item in (each.metadata if isinstance(each, FieldInfo) else [each])]
    return [getattr(item, key) for item in flat if getattr(item, key, None) is not None]


def _bare_type(annotation: Any) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _type(arguments[0], list(arguments[1:]))
    if origin in (Union, types.UnionType):
        return " or ".join(_type(each, []) for each in arguments if each is not types.NoneType)
    if origin is Literal:
        return " or ".join(map(code, arguments))
    if origin is list:
        item = _type(arguments[0], [])
        return f"list of {_PLURALS.get(item, item)}"
    if origin is dict:
        return f"mapping to {_type(arguments[1], [])}"
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    if issubclass(annotation, Enum):
        return " or ".join(code(each.value) for each in annotation)
    return f"[{annotation.__name__}](#{annotation.__name__.lower()})"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.default
    if value is None or value is PydanticUndefined:  # or it is made by a function: an empty collection
        return ""
    return code(value.value if isinstance(value, Enum) else value)
