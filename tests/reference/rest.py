"""Generator of ``docs/reference/rest.md``: a section per route of the OpenAPI document, and one per body."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from nnimgr.api.app import describe
from tests.reference.markdown import Table, code, page

__all__ = ["operations", "render"]

_NOTE = """\
A route links to the fields of its bodies, which are under [Bodies](#bodies) at the end of this page. A field
of a request may be left out unless it is *required*.

A running server shows the same description at `/docs`. The OpenAPI document is
[webui/openapi.json](../../webui/openapi.json). NNI's own routes are not listed here: see
[nni.md](nni.md)."""
_BOUNDS = (
    ("minimum", "at least {}"),
    ("exclusiveMinimum", "above {}"),
    ("maximum", "at most {}"),
    ("exclusiveMaximum", "below {}"),
    ("minItems", "at least {} items"),
    ("maxItems", "at most {} items"),
    ("maxProperties", "at most {} entries"),
    ("maxLength", "at most {} characters"),
)
_FORMATS = {"date-time": "time (ISO 8601)"}
_TOO_LARGE = 1 << 53  # a bound above it is that of the database, and tells a reader nothing
_NULL = " or null"
_REFERENCE = "#/components/schemas/"

Json = Mapping[str, Any]


def render() -> str:
    """Return the page."""
    document = describe()
    tags: dict[str, list[str]] = {}
    for method, path, operation in operations(document):
        tags.setdefault(operation["tags"][0], []).append(_route(method, path, operation))
    sections = [part for tag, routes in tags.items() for part in (f"## Routes: {tag}", *routes)]
    models = document["components"]["schemas"]
    bodies = [_model(name, models[name], set(_required(document))) for name in sorted(models)]
    return page("REST API", document["info"]["description"], _NOTE, *sections, "## Bodies", *bodies)


def operations(document: Json) -> Iterator[tuple[str, str, Json]]:
    """Yield the method, the path and the description of every route."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def _required(document: Json) -> Iterator[str]:
    """Yield the names of the models that requests carry, with those inside them."""
    todo = [operation.get("requestBody") for _, _, operation in operations(document)]
    seen: set[str] = set()
    while todo:
        for name in set(_references(todo.pop())) - seen:
            seen.add(name)
            todo.append(document["components"]["schemas"][name])
            yield name


def _references(schema: Any) -> Iterator[str]:
    """Yield the models that a piece of the document refers to."""
    if isinstance(schema, Mapping):
        if "$ref" in schema:
            yield schema["$ref"].removeprefix(_REFERENCE)
        for each in schema.values():
            yield from _references(each)
    elif isinstance(schema, list):
        for each in schema:
            yield from _references(each)


def _route(method: str, path: str, operation: Json) -> str:
    """Return the section of one route."""
    parts = [f"### {method} {path}", _about(operation)]
    if operation.get("parameters"):
        table = Table("parameter", "in", "type", "default", "description")
        for each in operation["parameters"]:
            default = _default(each["schema"], required=each.get("required", False))
            kind = _type(each["schema"]).removesuffix(_NULL)
            table.add(code(each["name"]), each["in"], kind, default, _about(each))
        parts.append(str(table))
    if "requestBody" in operation:
        may = "" if operation["requestBody"].get("required") else ", which may be left out"
        parts.append(f"Body: {_content(operation['requestBody'])}{may}.")
    answers = [f"{status} {_content(answer)}" for status, answer in operation["responses"].items()]
    parts.append(f"Answers: {'; '.join(answers)}.")
    return "\n\n".join(parts)


def _model(name: str, schema: Json, requested: set[str]) -> str:
    """Return the section of a body, or of a part of one."""
    parts = [f"### {name}"]
    if _about(schema):
        parts.append(_about(schema))
    if "enum" in schema:
        parts.append(f"One of {', '.join(map(code, schema['enum']))}.")
        return "\n\n".join(parts)
    table = Table("field", "type", "default", "description")
    for field, about in schema.get("properties", {}).items():
        required = name in requested and field in schema.get("required", ())
        table.add(code(field), _type(about), _default(about, required=required), _about(about))
    parts.append(str(table))
    return "\n\n".join(parts)


def _content(answer: Json) -> str:
    """Return the model of a body, or its media type if it has none."""
    found = [
        _type(body["schema"]).removesuffix(_NULL) if body.get("schema") else code(media)
        for media, body in answer.get("content", {}).items()
    ]
    return " or ".join(found) or answer.get("description", "")


def _type(schema: Json) -> str:
    """Return the type in words, with its bounds."""
    bounds = [words.format(schema[key]) for key, words in _BOUNDS if schema.get(key, _TOO_LARGE) < _TOO_LARGE]
    return ", ".join([_bare_type(schema), *bounds])


def _bare_type(schema: Json) -> str:
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(_REFERENCE)
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        kinds = [_type(each) for each in schema["anyOf"] if each.get("type") != "null"]
        return " or ".join(kinds) + (_NULL if len(kinds) < len(schema["anyOf"]) else "")
    if "enum" in schema:
        return " or ".join(map(code, schema["enum"]))
    if "prefixItems" in schema:
        return f"list of ({', '.join(map(_type, schema['prefixItems']))})"
    if schema.get("type") == "array":
        return f"list of {_bare_type(schema['items'])}"
    if isinstance(schema.get("additionalProperties"), Mapping):
        return f"object of {_bare_type(schema['additionalProperties'])}"
    return _FORMATS.get(schema.get("format", ""), str(schema.get("type", "any value")))


def _default(schema: Json, *, required: bool) -> str:
    if required:
        return "required"
    default = schema.get("default")
    return "" if default is None else code(default)


def _about(described: Json) -> str:
    return " ".join(described.get("description", "").replace("``", "`").split())
