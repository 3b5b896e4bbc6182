"""What is compared of the answers of two versions: everything but sentences and what the machine decides.

Sentences may be worded better in any version. The rule: in a JSON object, a text under one of ``SENTENCES``,
or each text of a list there, is replaced by ``MARK``. An empty text and null stay, so it is still compared
whether there is a sentence.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

__all__ = ["MARK", "comparable", "differences"]

MARK = "(a sentence)"
SENTENCES = frozenset(
    {"about", "error", "errors", "message", "note", "now", "reason", "sentence", "traceback"}
)
_HEADER = '{"revision"'
OF_THE_MACHINE = frozenset({"owner"})  # the user who runs this


def comparable(content_type: str, text: str) -> Any:
    """Return what is compared of an answer's body."""
    if content_type.startswith("application/json"):
        return _without_sentences(json.loads(text)) if text else None
    if content_type.startswith("text/event-stream"):
        return [_without_sentences(event) for event in _events(text)]
    return text


def differences(recorded: Any, found: Any, at: str = "") -> Iterator[str]:
    """Say where ``found`` lacks something recorded or differs from it.

    New fields of objects are allowed, and new texts at the end of a list of texts, such as names of kinds.
    """
    if isinstance(recorded, dict) and isinstance(found, dict):
        for key, value in recorded.items():
            if key in found:
                yield from differences(value, found[key], f"{at}.{key}")
            else:
                yield f"{at}.{key} is missing; it was {value!r}"
    elif isinstance(recorded, list) and isinstance(found, list) and len(recorded) == len(found):
        for number, (value, other) in enumerate(zip(recorded, found, strict=True)):
            yield from differences(value, other, f"{at}[{number}]")
    elif _is_begun_by(found, recorded):
        return
    elif isinstance(recorded, str) and isinstance(found, str) and _HEADER in recorded and _HEADER in found:
        yield from differences(_columns(recorded), _columns(found), at)
    elif type(recorded) is not type(found) or recorded != found:
        yield f"{at} was {recorded!r} and is {found!r}"


def _is_begun_by(found: Any, recorded: Any) -> bool:
    """Return whether the list ``found`` consists of texts, the first of which are those in ``recorded``."""
    if not isinstance(recorded, list) or not isinstance(found, list) or not recorded:
        return False
    return found[: len(recorded)] == recorded and all(isinstance(each, str) for each in found)


def _columns(body: str) -> list[Any]:
    """Return the header and the values of an answer with binary columns. Its first bytes are lengths."""
    start = body.index(_HEADER)
    header, end = json.JSONDecoder().raw_decode(body, start)
    padding = -(4 + end - start) % 8  # the values begin at a multiple of 8 bytes
    return [header, body[end + padding :]]


def _without_sentences(value: Any, *, key: str = "") -> Any:
    if isinstance(value, dict):
        kept = {name: item for name, item in value.items() if name not in OF_THE_MACHINE}
        return {name: _without_sentences(item, key=name) for name, item in kept.items()}
    if isinstance(value, list):
        return [_without_sentences(item, key=key) for item in value]
    return MARK if key in SENTENCES and isinstance(value, str) and value else value


def _events(text: str) -> Iterator[dict[str, Any]]:
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line)
        if "event" in fields:
            yield {**fields, "data": json.loads(fields["data"])}
