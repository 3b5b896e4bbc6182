"""Generator of ``docs/reference/rest.md``: one section per route of the OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nnimgr.api.app import describe
from tests.reference.markdown import Table, code, page

__all__ = ["render"]

_NOTE = """\
A running server shows this description with the fields of every body at `/docs`. The OpenAPI document is
[webui/openapi.json](../../webui/openapi.json). NNI's own routes are not listed here: see
[nni.md](../nni.md)."""

Json = Mapping[str, Any]


def render() -> str:
    """Return the page."""
    document = describe()
    tags: dict[str, list[str]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            tags.setdefault(operation["tags"][0], []).append(_route(method.upper(), path, operation))
    sections = [part for tag, routes in tags.items() for part in (f"## {tag}", *routes)]
    return page("REST API", document["info"]["description"], _NOTE, *sections)


def _route(method: str, path: str, operation: Json) -> str:
    """Return the section of one route."""
    parts = [f"### {method} {path}", " ".join(operation["description"].split())]
    if operation.get("parameters"):
        table = Table("parameter", "in", "type", "default", "description")
        for each in operation["parameters"]:
            table.add(code(each["name"]), each["in"], _type(each["schema"]), _default(each), _about(each))
        parts.append(str(table))
    if "requestBody" in operation:
        parts.append(f"Body: {_content(operation['requestBody'])}.")
    answers = [f"{status} {_content(answer)}" for status, answer in operation["responses"].items()]
    parts.append(f"Answers: {'; '.join(answers)}.")
    return "\n\n".join(parts)


def _content(answer: Json) -> str:
    """Return the model of a body, or its media type if it has none."""
    found = [
        _type(body["schema"]) if body.get("schema") else f"`{media}`"
        for media, body in answer.get("content", {}).items()
    ]
    return " or ".join(found) or answer.get("description", "")


def _type(schema: Json) -> str:
    if "$ref" in schema:
        return code(schema["$ref"].rpartition("/")[2])
    if "anyOf" in schema:
        return " or ".join(_type(each) for each in schema["anyOf"] if each.get("type") != "null")
    if "enum" in schema:
        return " or ".join(map(code, schema["enum"]))
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])}"
    return str(schema.get("type", "any value"))


def _default(parameter: Json) -> str:
    if parameter.get("required"):
        return "required"
    default = parameter["schema"].get("default")
    return "" if default is None else code(default)


def _about(parameter: Json) -> str:
    return " ".join(parameter.get("description", "").split())
