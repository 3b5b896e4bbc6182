"""Sentences about text that is not YAML, in place of those of the parser."""

from __future__ import annotations

import re

import yaml

__all__ = ["sentence_of"]

_NO_COLON = "could not find expected ':'"  # problem of PyYAML in the line after the faulty one
_MISSING_COLON = "after the field's name, ':' is missing"
_STRUCTURES = ("<block mapping start>", "<block sequence start>")
_ENDS = {"while parsing a flow mapping": ("{", "}"), "while parsing a flow sequence": ("[", "]")}
_BREAK = re.compile("\r\n|[\r\n\x85\u2028\u2029]")  # all ends of lines that YAML counts
_NO_SPACE = re.compile(r"\s*(?:- +)?([\w./-]+):\S")
_FIELD_ALONE = re.compile(r"\s*(?:- +)?[\w./-]+\s*")


def sentence_of(error: yaml.MarkedYAMLError, text: str) -> tuple[str, yaml.Mark | None]:
    """Return what is wrong with a text that is not YAML, and where."""
    mark = error.problem_mark or error.context_mark
    if "'\\t'" in (error.problem or ""):
        return "YAML does not allow a tab here; use spaces", mark
    sentence, mark = _usual(error, _BREAK.split(text)) or (None, mark)
    if sentence is None:
        sentence = ", ".join(part for part in (error.context, error.problem) if part)
    return f"not YAML: {sentence}", mark


def _usual(error: yaml.MarkedYAMLError, lines: list[str]) -> tuple[str, yaml.Mark] | None:
    """Return a sentence about a usual mistake, and its place. None: it is another one."""
    problem, start, mark = error.problem or "", error.context_mark, error.problem_mark
    if problem == _NO_COLON and start is not None:
        field = _NO_SPACE.match(lines[start.line])
        return _MISSING_COLON if field is None else f"a space is missing after '{field[1]}:'", start
    if mark is None:
        return None
    if any(f"but found '{name}'" in problem for name in _STRUCTURES):
        return _indentation(lines, mark)
    if problem.startswith("mapping values are not allowed"):
        if _FIELD_ALONE.fullmatch(lines[mark.line][: mark.column]):
            return _indentation(lines, mark)
        line = lines[mark.line]
        if line.count("}") > line.count("{"):
            return "a '{' is missing before the '}' of this line", mark
        return "a value that contains ': ' must be in quotes", mark
    if problem.endswith("but found '?'"):
        return "a field cannot stand beside the entries of a list; check the indentation", mark
    if start is not None and problem.startswith("expected ','") and error.context in _ENDS:
        first, last = _ENDS[error.context]
        return f"after the '{first}' in line {start.line + 1}, a ',' or the '{last}' is missing", mark
    if start is not None and error.context == "while scanning a quoted scalar" and "end of" in problem:
        return "the quotation mark that ends this text is missing", start
    return None


def _indentation(lines: list[str], mark: yaml.Mark) -> tuple[str, yaml.Mark]:
    """Return how a line's indentation differs from that of the line before it, as a sentence."""
    above = (number for number in range(mark.line - 1, -1, -1) if lines[number].split("#")[0].strip())
    before = next(above, 0)
    here, there = (len(line) - len(line.lstrip()) for line in (lines[mark.line], lines[before]))
    if here == there:
        return _MISSING_COLON, yaml.Mark(mark.name, 0, before, there, None, 0)
    spaces = "1 space" if here == 1 else f"{here} spaces"
    sentence = (
        f"this line is indented by {spaces} and the line before it by {there}; fields beside each other need "
        "the same indentation"
    )
    return sentence, mark
