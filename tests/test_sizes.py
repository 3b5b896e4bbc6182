"""Files, classes and functions stay small enough to be read at once."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDERS = ("trial_keeper", "training_services", "nnimgr", "nni", "tests", "benchmarks", "examples")
MAX_FILE, MAX_CLASS, MAX_FUNCTION = 500, 300, 80  # lines


def _too_long(path: Path) -> list[str]:
    """Return the names of what is too long in a file, each with its number of lines."""
    text = path.read_text(encoding="utf-8")
    name = str(path.relative_to(ROOT))
    lines = len(text.splitlines())
    found = [f"{name}: {lines} lines"] if lines > MAX_FILE else []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef):
            limit = MAX_CLASS
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            limit = MAX_FUNCTION
        else:
            continue
        lines = (node.end_lineno or node.lineno) - node.lineno + 1
        if lines > limit:
            found.append(f"{name}: {node.name} has {lines} lines, at most {limit}")
    return found


def test_files_classes_and_functions_are_small() -> None:
    files = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    assert len(files) > 500
    assert [entry for path in files for entry in _too_long(path)] == []
