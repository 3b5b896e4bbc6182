"""The reference in ``docs/reference``: its pages are current, and its examples are valid."""

from __future__ import annotations

import json
import re
from typing import Annotated, Any

import pytest
import yaml
from pydantic import BaseModel, Field, TypeAdapter

from nnimgr.api.app import describe
from nnimgr.server.main import _parser as server_parser
from tests.reference import commands, configuration, rest
from tests.reference.markdown import COMMAND
from tests.reference.pages import FOLDER, PAGES

MODELS = {model.__name__: model for model, _ in configuration.models()}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_current(name: str) -> None:
    kept = (FOLDER / name).read_text(encoding="utf-8") if (FOLDER / name).is_file() else ""
    current = kept == PAGES[name]()
    assert current, f"docs/reference/{name} is out of date: run '{COMMAND}' and commit the result"


@pytest.mark.parametrize("name", MODELS)
def test_the_examples_are_valid(name: str) -> None:
    descriptions = yaml.safe_load(configuration.DESCRIPTIONS.read_text(encoding="utf-8"))
    for field, info in configuration.fields(MODELS[name]):
        _, about = configuration.described(descriptions, MODELS[name], field)
        if "example" in about:
            kind: Any = Annotated[info.annotation, Field(), *info.metadata]
            TypeAdapter(kind).validate_json(json.dumps(about["example"]))


def test_a_field_without_a_description_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    class Undescribed(BaseModel):
        new_field: int = 1

    monkeypatch.setattr(configuration, "models", lambda: [(Undescribed, "Undescribed")])
    with pytest.raises(ValueError, match=r"no description of the field newField of Undescribed"):
        configuration.render()


def section(text: str, heading: str) -> str:
    """Return the text of a page under a heading, up to the next heading."""
    return text.split(f"\n{heading}\n", 1)[1].split("\n#", 1)[0]


def test_every_field_of_a_body_is_listed_and_linked() -> None:
    text, document = rest.render(), describe()
    for name, model in document["components"]["schemas"].items():
        about = section(text, f"### {name}")
        missing = [
            each
            for each in [*model.get("properties", ()), *model.get("enum", ())]
            if f"`{each}`" not in about
        ]
        assert not missing, f"the section {name} lacks {missing}"
    for method, path, operation in rest.operations(document):
        about = section(text, f"### {method} {path}")
        for name in re.findall(r"#/components/schemas/(\w+)", json.dumps(operation)):
            assert f"(#{name.lower()})" in about, f"{method} {path} does not link to {name}"


def test_every_option_of_the_server_is_listed() -> None:
    ((name, parser, _),) = commands.commands(server_parser())
    about = section(commands.server_page(), f"## {name}")
    for action in parser._actions:
        if action.dest != "help":
            assert f"| `{action.option_strings[0]}`" in about, f"{action.dest} is not listed"
