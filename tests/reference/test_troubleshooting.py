"""Every message that the troubleshooting page quotes is one that the product prints."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
QUOTED = [line for block in re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]
_LEAST = 10  # characters of a message that are the same every time


@cache
def messages() -> tuple[re.Pattern[str], ...]:
    """Return the texts of the product's sources, with any text in the places of values."""
    found: set[str] = set()
    for package in ("nni", "nnimgr", "training_services", "trial_keeper"):
        for file in (ROOT / package).rglob("*.py"):
            found.update(_texts(ast.parse(file.read_text(encoding="utf-8"))))
    return tuple(map(re.compile, found))


def _texts(tree: ast.AST) -> Iterator[str]:
    """Yield the patterns of all texts, without docstrings and without the pieces of longer texts."""
    inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    inner |= {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if id(node) in inner:
            continue
        if not isinstance(node, ast.Constant | ast.JoinedStr):
            continue
        parts = node.values if isinstance(node, ast.JoinedStr) else [node]
        texts = [str(part.value) if isinstance(part, ast.Constant) else None for part in parts]
        if sum(len(text.strip()) for text in texts if text) >= _LEAST:
            yield "".join(".*" if text is None else re.escape(text) for text in texts)


@pytest.mark.parametrize("line", QUOTED)
def test_a_quoted_message_is_one_of_the_product(line: str) -> None:
    assert any(message.search(line) for message in messages()), f"nothing in the sources says: {line}"


def test_an_invented_message_is_noticed() -> None:
    assert not any(message.search("the frobnicator has gone fishing") for message in messages())
