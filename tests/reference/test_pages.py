"""The reference in ``docs/reference``: its pages are current, and its examples are valid."""

from __future__ import annotations

import json
from typing import Annotated, Any

import pytest
import yaml
from pydantic import BaseModel, Field, TypeAdapter

from tests.reference import configuration
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
