"""What all requests and answers have in common, and the answers that many routes give.

Keys are camelCase, instants ISO 8601 with a zone, durations seconds. A number that is not finite never leaves
the server: its field is null, and the text field beside it has what the trial wrote.
"""

from __future__ import annotations

import math
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

_MOST_DEPTH = 64
_MOST_KEYS = 10_000


def sober(value: Any) -> Any:
    """``value``, if it is finite, valid Unicode, not too deep and not too large. Raises ValueError."""
    level, seen = [value], 0
    for _ in range(_MOST_DEPTH):
        below: list[Any] = []
        for item in level:
            if isinstance(item, float) and not math.isfinite(item):
                raise ValueError("a number must be finite")
            if isinstance(item, str):
                _check_text(item)
            elif isinstance(item, dict):
                for key in item:
                    _check_text(key)
                below.extend(item.values())
            elif isinstance(item, list):
                below.extend(item)
        seen += len(below)
        if seen > _MOST_KEYS:
            raise ValueError(f"at most {_MOST_KEYS} values are allowed")
        if not below:
            return value
        level = below
    raise ValueError(f"at most {_MOST_DEPTH} levels of nesting are allowed")


def _check_text(text: str) -> None:
    """JSON can name halves of surrogate pairs, which no database and no file system takes."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ValueError(f"a text must be valid Unicode, not {text!a:.60}") from None


JsonObject = Annotated[dict[str, Any], AfterValidator(sober)]
JsonValue = Annotated[Any, AfterValidator(sober)]


class Model(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        serialize_by_alias=True,
        ser_json_inf_nan="null",
        frozen=True,
    )


class Request(Model):
    model_config = ConfigDict(extra="forbid")


class Problem(BaseModel):
    """One thing that is wrong with what was sent."""

    model_config = ConfigDict(extra="allow")

    field: str = Field(description="where, as a path such as tuner.classArgs")
    message: str


class ErrorBody(Model):
    message: str = Field(description="one sentence")
    problems: list[Problem] | None = Field(None, description="each fault of a configuration or request")


class ErrorAnswer(Model):
    error: ErrorBody


class Done(Model):
    """It is done."""

    ok: bool = True
