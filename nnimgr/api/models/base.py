"""Base classes and limits of all requests and answers, and answers that many routes return.

Keys are camelCase, times are ISO 8601 with a zone, durations are seconds. The server never sends a number
that is not finite: such a field is null, and a text field beside it contains the value that the trial wrote.
"""

from __future__ import annotations

import math
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, FailFast, Field, model_validator
from pydantic.alias_generators import to_camel

_MOST_DEPTH = 64
_MOST_KEYS = 10_000
_MOST_UNKNOWN = 20  # largest number of unknown fields that an error names


def sober(value: Any) -> Any:
    """Return a JSON value from a request if it can be stored.

    Raise ValueError for a number that is not finite, for text that is not valid Unicode, and for a value with
    too many levels or elements.
    """
    level, seen = [value], 0
    for _ in range(_MOST_DEPTH):
        below: list[Any] = []
        for item in level:
            if isinstance(item, float) and not math.isfinite(item):
                raise ValueError("a number must be finite")
            if isinstance(item, str):
                _check_text(item)
            elif isinstance(item, dict):
                if len(item) > _MOST_KEYS:
                    raise ValueError(f"at most {_MOST_KEYS} values are allowed")
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
    """Raise ValueError if a text contains half of a surrogate pair.

    JSON can contain such a character, but no database and no file system accepts it.
    """
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise ValueError(f"a text must be valid Unicode, not {text!a:.60}") from None


def few(most: int) -> BeforeValidator:
    """Return a validator that refuses a JSON object with too many keys before any of its values is read."""

    def check(value: Any) -> Any:
        if isinstance(value, dict) and len(value) > most:
            raise ValueError(f"at most {most} values are allowed, not {len(value)}")
        return value

    return BeforeValidator(check)


class _FailFast(FailFast):
    """Pydantic's FailFast, made hashable, because pydantic demands that for members of a union."""

    __hash__ = object.__hash__


Few = few(_MOST_KEYS)
First = _FailFast()  # marks a list that reports only its first bad item, because there may be very many
JsonObject = Annotated[dict[str, Any], AfterValidator(sober)]
JsonValue = Annotated[Any, AfterValidator(sober)]


class Model(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        serialize_by_alias=True,
        ser_json_inf_nan="null",
        frozen=True,
        defer_build=True,  # answers are built at their first use: a server that starts needs none of them
    )


class Request(Model):
    """Body of a request. Unknown fields are rejected, each by name unless there are very many."""

    model_config = ConfigDict(extra="forbid", defer_build=False)

    @model_validator(mode="before")
    @classmethod
    def _known(cls, value: Any) -> Any:
        if isinstance(value, dict) and len(value) > 2 * len(cls.model_fields) + _MOST_UNKNOWN:
            fields = ", ".join(to_camel(name) for name in cls.model_fields)
            raise ValueError(f"{len(value)} fields were sent, but only these are known: {fields}")
        return value


class Problem(BaseModel):
    """Error at one field of a request."""

    model_config = ConfigDict(extra="allow")

    field: str = Field(description="path of the field, such as tuner.classArgs")
    message: str


class ErrorBody(Model):
    message: str = Field(description="one sentence")
    problems: list[Problem] | None = Field(None, description="all errors of a configuration or request")


class ErrorAnswer(Model):
    error: ErrorBody


class Done(Model):
    """Answer that confirms that a request was carried out."""

    ok: bool = True
