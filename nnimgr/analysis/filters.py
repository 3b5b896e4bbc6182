"""Filters that select trials, in the syntax of NNI's dashboard with some extensions.

A filter has terms with ``;`` between them, and a trial must match all terms. A term has one of these forms:

- ``name:value``: the column has this value
- ``name:[a, b]``: a column of categories has one of these values, a column of numbers has a value from a to b
- ``name > v``, ``name < v``, ``name >= v``, ``name <= v``
- ``name ≠ v`` or ``name != v``: the column has another value
- ``tags:a``: the trial has this tag; ``tags:[a, b]``: it has any of these tags; ``tags ≠ a``: it does not

The value ``null`` matches trials that have no value in the column. No other term matches these trials. Names
and values may be JSON strings in quotes.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from nnimgr.analysis.column import Array
from nnimgr.analysis.columns import METRICS, PARAMETERS, TIMES, Columns
from nnimgr.analysis.errors import BadQuestion

__all__ = ["Term", "Value", "matching", "parse_filter", "parse_names"]

TAGS = "tags"  # name in filters; tags are not a column, because a trial has any number of them
_ALIASES = {
    "trial id": "id",
    "trial no.": "sequence",
    "trial no": "sequence",
    "no.": "sequence",
    "default metric": "value",
    "default": "value",
    "start time": "started",
    "end time": "ended",
    "intermediate count": "intermediates",
}
_OPERATOR = re.compile(r">=|<=|!=|[:><≠]")
_BLANK = re.compile(r"\s*")
_NAME_END = re.compile(r">=|<=|!=|[:><≠;]")
_VALUE_END = re.compile(r"[;,\]]")
_ORDERS: Mapping[str, Callable[[Array, float], Array]] = {
    ">": np.greater,
    "<": np.less,
    ">=": np.greater_equal,
    "<=": np.less_equal,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """Value as written in a filter. A value in quotes (``quoted``) is always a text."""

    text: str
    quoted: bool
    position: int

    @property
    def plain(self) -> Any:
        """JSON value of the text. A text in quotes, or one that is not JSON, is itself the value."""
        if not self.quoted:
            try:
                return json.loads(self.text)
            except (ValueError, RecursionError):
                pass
        return self.text

    @property
    def null(self) -> bool:
        return self.text == "null" and not self.quoted


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """Term of a filter: a condition on one column.

    ``operator`` is one of ``:``, ``≠``, ``>``, ``<``, ``>=`` and ``<=``. ``several``: the values were in
    brackets.
    """

    name: str
    operator: str
    values: Sequence[Value]
    several: bool
    position: int


def matching(columns: Columns, filter: str) -> Array:
    """Return which trials match the filter, as one bool per trial. An empty filter matches all trials.

    Raise BadQuestion if the filter is not valid.
    """
    found = np.ones(len(columns), bool)
    for term in parse_filter(filter):
        found &= _matches(columns, term)
    return found


def parse_filter(text: str) -> list[Term]:
    """Return the terms of a filter. Raise BadQuestion, with the position of the unexpected text, if it is not
    valid.
    """
    return _Parser(text, field="filter").terms()


def parse_names(text: str, *, field: str) -> list[str]:
    """Return the names of columns in a text that has commas between them. A name with a comma must be in
    quotes.

    Raise BadQuestion if the text is not valid.
    """
    return _Parser(text, field=field).names()


# ---- reading ----------------------------------------------------------------------------------------------


class _Parser:
    def __init__(self, text: str, *, field: str) -> None:
        self._text, self._field = text, field
        self._at = 0

    def terms(self) -> list[Term]:
        terms = []
        while self._more():
            if not self._take(";"):
                terms.append(self._term())
                if self._more() and not self._take(";"):
                    raise self._unexpected('";" or the end')
        return terms

    def names(self) -> list[str]:
        names = []
        while self._more():
            name = self._word(re.compile(","), what="a name").text
            names.append(name)
            if self._more() and not self._take(","):
                raise self._unexpected('"," or the end')
        return names

    def _term(self) -> Term:
        name = self._word(_NAME_END, what="a column's name")
        self._more()
        operator = _OPERATOR.match(self._text, self._at)
        if operator is None:
            raise self._unexpected(f'an operator after "{name.text}" (":" for equal, or > < >= <= ≠)')
        self._at = operator.end()
        values, several = self._values()
        return Term(
            name=name.text,
            operator="≠" if operator[0] == "!=" else operator[0],
            values=values,
            several=several,
            position=name.position,
        )

    def _values(self) -> tuple[list[Value], bool]:
        if not (self._more() and self._take("[")):
            return [self._word(re.compile(";"), what="a value")], False
        values = []
        while True:
            values.append(self._word(_VALUE_END, what="a value"))
            self._more()
            if self._take("]"):
                return values, True
            if not self._take(","):
                raise self._unexpected('"," or "]"')

    def _word(self, end: re.Pattern[str], *, what: str) -> Value:
        """Read the next name or value of the filter: a text in quotes, or the text before a match of ``end``.

        ``what`` describes the expected text in an error message.
        """
        if not self._more():
            raise self._unexpected(what)
        begin = self._at
        if self._text[begin] == '"':
            try:
                text, end_at = json.JSONDecoder().raw_decode(self._text, begin)
            except ValueError:
                raise self._unexpected(f"{what} with a closing quote") from None
            if not _is_unicode(text):
                raise self._unexpected(f"{what} of valid Unicode")
            self._at = end_at
            return Value(text=text, quoted=True, position=begin)
        found = end.search(self._text, begin)
        self._at = len(self._text) if found is None else found.start()
        text = self._text[begin : self._at].rstrip()
        if not text:
            self._at = begin
            raise self._unexpected(what)
        return Value(text=text, quoted=False, position=begin)

    def _more(self) -> bool:
        """Skip blanks in the filter's text. Return True if more text follows."""
        blank = _BLANK.match(self._text, self._at)
        assert blank is not None
        self._at = blank.end()
        return self._at < len(self._text)

    def _take(self, character: str) -> bool:
        taken = self._text.startswith(character, self._at)
        self._at += taken
        return taken

    def _unexpected(self, expected: str) -> BadQuestion:
        rest = self._text[self._at : self._at + 20]
        found = f'"{rest}"' if rest else "the end of the filter"
        return BadQuestion(self._field, f"expected {expected}, found {found}", position=self._at)


def _is_unicode(text: str) -> bool:
    """Return False if the text contains half of a surrogate pair, which a JSON escape can express.

    Such a text is not valid Unicode.
    """
    return not any("\ud800" <= character <= "\udfff" for character in text)


# ---- matching ---------------------------------------------------------------------------------------------


def _matches(columns: Columns, term: Term) -> Array:
    name = _column(columns, term)
    if name == "id":
        return _of_ids(columns, term)
    if name == TAGS:
        return _of_tags(columns, term)
    if name in columns.categories:
        return _of_categories(columns, name, term)
    return _of_numbers(columns, name, term)


def _column(columns: Columns, term: Term) -> str:
    """Return the name of the column that a filter's term is about. The term may omit ``parameters.`` or
    ``metrics.``.

    Raise BadQuestion if there is no such column, or more than one.
    """
    lower = " ".join(term.name.lower().split())
    lower = _ALIASES.get(lower, lower)
    own = [name for name in columns.arrays if not name.startswith((PARAMETERS, METRICS))]
    if lower in ("id", TAGS, *own):
        return lower
    if term.name in columns.arrays:
        return term.name
    meant = [prefix + term.name for prefix in (PARAMETERS, METRICS) if prefix + term.name in columns.arrays]
    if len(meant) == 1:
        return meant[0]
    if meant:
        raise BadQuestion(
            "filter", f"expected {' or '.join(meant)}, because both columns exist", position=term.position
        )
    known = ["id", TAGS, *columns.arrays, *(name.split(".", 1)[1] for name in columns.arrays if "." in name)]
    near = difflib.get_close_matches(term.name, known, n=3, cutoff=0.5)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    raise BadQuestion("filter", f'there is no column "{term.name}"{hint}', position=term.position)


def _of_ids(columns: Columns, term: Term) -> Array:
    """Return which trials match a term about ids: their id contains one of the term's values."""
    if term.operator in _ORDERS:
        raise _unordered(term)
    found = np.zeros(len(columns), bool)
    for value in term.values:
        found |= np.char.find(columns.ids, value.text.encode()) >= 0
    return ~found if term.operator == "≠" else found


def _of_tags(columns: Columns, term: Term) -> Array:
    """Return which trials match a term about tags: they have any of its tags. ``null`` matches trials without
    tags.
    """
    if term.operator in _ORDERS:
        raise _unordered(term)
    wanted = {value.text for value in term.values if not value.null}
    sequences = [sequence for sequence, tags in columns.tags.items() if not wanted.isdisjoint(tags)]
    found = np.isin(columns.arrays["sequence"], sequences)
    if any(value.null for value in term.values):
        tagged = [sequence for sequence, tags in columns.tags.items() if tags]
        found |= ~np.isin(columns.arrays["sequence"], tagged)
    return ~found if term.operator == "≠" else found


def _of_categories(columns: Columns, name: str, term: Term) -> Array:
    present = columns.present(name)
    if term.operator in _ORDERS:
        if not any(type(category) in (int, float) for category in columns.categories[name]):
            raise _unordered(term)
        return _compared(columns.numbers(name), term)
    codes = [code for value in term.values for code in _codes(columns.categories[name], name, value)]
    found: Array = np.isin(columns.arrays[name], codes) & present
    if any(value.null for value in term.values):
        found |= ~present
        return ~found if term.operator == "≠" else found
    return ~found & present if term.operator == "≠" else found


def _codes(categories: Sequence[Any], name: str, value: Value) -> list[int]:
    """Return the codes of the categories that are equal to a filter's value, as a text or as a number."""
    if name not in ("status", "source"):
        return [code for code, known in enumerate(categories) if _same(known, value)]
    codes = [code for code, known in enumerate(categories) if known.lower() == value.text.lower()]
    if not codes:
        expected = f"expected one of {', '.join(categories)}, found {value.text}"
        raise BadQuestion("filter", expected, position=value.position)
    return codes


def _same(category: Any, value: Value) -> bool:
    plain = value.plain
    return bool(
        category == value.text
        or (category == plain and isinstance(category, bool) == isinstance(plain, bool))
    )


def _of_numbers(columns: Columns, name: str, term: Term) -> Array:
    values = columns.numbers(name)
    there = ~np.isnan(values)
    if term.operator in _ORDERS:
        return _compared(values, term, origin_at=columns.origin_at if name in TIMES else None)
    if not term.several and term.values[0].null:
        found = ~there
        return there if term.operator == "≠" else found
    limits = [_number(value, columns.origin_at if name in TIMES else None) for value in term.values]
    if len(limits) != 1 + term.several:
        message = f"expected two numbers, from and to, in brackets, found {len(limits)}"
        raise BadQuestion("filter", message, position=term.values[0].position)
    found = (values >= limits[0]) & (values <= limits[-1])
    return ~found & there if term.operator == "≠" else found


def _compared(values: Array, term: Term, *, origin_at: datetime | None = None) -> Array:
    if term.several:
        message = f"expected one value after {term.operator}, found brackets"
        raise BadQuestion("filter", message, position=term.values[0].position)
    return _ORDERS[term.operator](values, _number(term.values[0], origin_at))


def _number(value: Value, origin_at: datetime | None) -> float:
    """Return the number that a filter's value stands for. Raise BadQuestion if it stands for none.

    In a column of times, numbers are seconds since ``origin_at``. The value is then a number of seconds, or
    an instant in ISO format, which is converted to seconds since ``origin_at``.
    """
    try:
        number = float(value.text)
    except ValueError:
        number = _instant(value.text, origin_at)
    if not np.isfinite(number):
        what = "a number" if origin_at is None else "seconds or an instant such as 2026-01-31T12:00:00Z"
        raise BadQuestion("filter", f"expected {what}, found {value.text}", position=value.position)
    return number


def _instant(text: str, origin_at: datetime | None) -> float:
    if origin_at is None:
        return np.nan
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        return np.nan
    return ((instant if instant.tzinfo else instant.replace(tzinfo=UTC)) - origin_at).total_seconds()


def _unordered(term: Term) -> BadQuestion:
    message = f"expected : or ≠ after {term.name}, which has no numbers, found {term.operator}"
    return BadQuestion("filter", message, position=term.position)
