"""Page of an experiment for a notebook, as HTML: its state and errors, the best trial so far, the best ten,
and a curve.

The page uses the colours of JupyterLab's theme if there is one.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from nnimgr.cli.failures import failure_lines, has_output
from nnimgr.cli.progress import (
    finished_text,
    finished_trials,
    notice_lines,
    number,
    parameters_text,
    wanted_trials,
)
from nnimgr.cli.summary import counts_text, goal_of, main_objective
from nnimgr.cli.times import duration_text

__all__ = ["MOST_ROWS", "improved", "page"]

MOST_ROWS = 10
_MOST_ERRORS = 3
_INK = "var(--jp-ui-font-color1, #1b2230)"
_SOFT = "var(--jp-ui-font-color2, #566072)"
_LINE = "var(--jp-border-color2, #d8dde5)"
_ACCENT = "var(--jp-brand-color1, #1f55b5)"
_FONT = "var(--jp-ui-font-family, system-ui, sans-serif)"
_COLOURS = {
    "RUNNING": _ACCENT,
    "DONE": "var(--jp-success-color1, #1a7440)",
    "ERROR": "var(--jp-error-color1, #b3261e)",
}
_AMBER = "var(--jp-warn-color0, #8a5300)"
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 320, 112, 58, 10, 8, 20


def improved(
    curve: Sequence[tuple[int, float]], sequence: int, value: float, *, smaller: bool
) -> list[tuple[int, float]]:
    """Return the curve with one more result, whose trial may have a smaller number than trials in the curve.

    ``smaller``: smaller results are better.
    """

    def better(one: float, other: float) -> bool:
        return one < other if smaller else one > other

    before = [point for point in curve if point[0] <= sequence]
    if not math.isfinite(value) or (before and not better(value, before[-1][1])):
        return list(curve)
    after = [point for point in curve if point[0] > sequence and better(point[1], value)]
    return [*before, (sequence, value), *after]


def page(
    profile: Mapping[str, Any],
    *,
    top: Sequence[Mapping[str, Any]],
    curve: Sequence[tuple[int, float]],
    failed: Mapping[str, Any] | None = None,
) -> str:
    """Return the page. ``top``: the best trials, as the server lists them. ``failed``: the last failed one.

    ``curve``: each trial that was better than all earlier ones, as its number and its result.
    """
    return (
        f'<div style="font:13px/1.5 {_FONT};color:{_INK};max-width:780px;padding:6px 0">'
        f"{_head(profile)}"
        '<div style="display:flex;flex-wrap:wrap;gap:8px 24px;align-items:flex-start">'
        f'<div style="flex:1 1 340px;min-width:0">{"".join(_facts(profile))}'
        f"{''.join(_problems(profile, failed))}</div>"
        f"{_curve(curve, last=_last(profile, curve))}</div>"
        f"{_table(top)}</div>"
    )


def _head(profile: Mapping[str, Any]) -> str:
    name = profile["name"] or profile["id"]
    colour = _COLOURS.get(profile["status"], _SOFT)
    return (
        '<div style="display:flex;gap:10px;align-items:baseline;margin-bottom:4px">'
        f'<span style="font-size:15px;font-weight:600">{escape(str(name))}</span>'
        f'<span style="color:{colour};font-weight:600;font-size:12px">{escape(profile["status"])}</span>'
        f'<span style="color:{_SOFT};font-size:12px">{duration_text(profile["durationS"])}</span></div>'
    )


def _facts(profile: Mapping[str, Any]) -> Iterator[str]:
    sentence = profile.get("now") or profile["reason"]
    if sentence:
        yield f"<div>{escape(str(sentence))}</div>"
    yield _bar(profile)
    yield _fact("Trials", escape(counts_text(profile)))
    yield _fact("Goal", escape(goal_of(profile)))
    best = profile["bestTrial"]
    if best is not None:
        by = main_objective(profile)
        yield _fact(
            f"Best {by}".strip(),
            f'<b style="font-size:15px">{number(best["value"])}</b> '
            f'<span style="color:{_SOFT}">trial {best["sequence"]}</span><br>'
            f"{escape(parameters_text(best['parameters']))}",
        )


def _problems(profile: Mapping[str, Any], failed: Mapping[str, Any] | None) -> Iterator[str]:
    """Yield the notices, the newest errors of algorithms, and why the last failed trial has failed."""
    for notice, _ in notice_lines(profile):
        yield f'<div style="color:{_AMBER}">{escape(notice)}</div>'
    errors = Counter(error["sentence"] for error in profile["errors"])  # the newest first
    for sentence, count in list(errors.items())[:_MOST_ERRORS]:
        yield _error(f"{sentence} ({count} times)" if count > 1 else sentence)
    if failed is not None:
        yield _error(failure_lines(failed, profile["id"])[0])
        if has_output(failed):
            # The reason ends with a line of stderr, if there is one.
            logs = "logs('stderr')" if ": " in failed["reason"] else "logs()"
            call = f"Run.attach({profile['id']!r}).trials[{failed['sequence']}].{logs}"
            yield f'<div style="color:{_SOFT};font-size:12px">Its output: {escape(call)}</div>'


def _error(sentence: str) -> str:
    return f'<div style="color:{_COLOURS["ERROR"]}">{escape(sentence)}</div>'


def _fact(word: str, content: str) -> str:
    return (
        '<div style="display:flex;gap:8px">'
        f'<span style="color:{_SOFT};flex:0 0 48px">{escape(word)}</span><span>{content}</span></div>'
    )


def _bar(profile: Mapping[str, Any]) -> str:
    """Return a bar for the finished trials, and their number with its limit; "" without a limit."""
    done, most = finished_trials(profile), wanted_trials(profile)
    if not most:
        return ""
    share = min(100.0, 100.0 * done / most)
    return (
        '<div style="display:flex;gap:8px;align-items:center;margin:2px 0 4px">'
        f'<div style="flex:1;height:4px;border-radius:2px;background:{_LINE}">'
        f'<div style="width:{share:.1f}%;height:4px;border-radius:2px;background:{_ACCENT}"></div></div>'
        f'<span style="color:{_SOFT};font-size:12px">{finished_text(profile)}</span></div>'
    )


def _last(profile: Mapping[str, Any], curve: Sequence[tuple[int, float]]) -> int:
    """Return the number of the newest trial, where the curve ends."""
    return max([sum(profile["counts"].values()) - 1, *(sequence for sequence, _ in curve)], default=0)


def _curve(points: Sequence[tuple[int, float]], *, last: int) -> str:
    """Return the best value over the trials as a drawing. It is a line with steps."""
    finite = [(sequence, value) for sequence, value in points if math.isfinite(value)]
    if not finite:
        return ""
    low, high = min(value for _, value in finite), max(value for _, value in finite)
    wide = max(1, last)

    def place(sequence: float, value: float) -> tuple[float, float]:
        share = 0.5 if high == low else (value - low) / (high - low)
        x = _LEFT + (_WIDTH - _LEFT - _RIGHT) * sequence / wide
        return x, _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - share)

    x, y = place(*finite[0])
    path = f"M{x:.1f},{y:.1f}"
    for point in finite[1:]:
        x, y = place(*point)
        path += f"H{x:.1f}V{y:.1f}"
    path += f"H{place(wide, low)[0]:.1f}"
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    values = {place(0, value)[1]: value for value in (low, high)}
    texts = "".join(
        f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{number(value)}</text>'
        for y, value in values.items()
    )
    return (
        f'<svg width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="Best value over the trials" style="flex:none;font-size:11px;fill:{_SOFT}">'
        f'<path d="M{_LEFT},{bottom + 2}H{right}" style="stroke:{_LINE};fill:none"/>'
        f'<path d="{path}" style="stroke:{_ACCENT};stroke-width:1.75;fill:none"/>{texts}'
        f'<text x="{_LEFT}" y="{_HEIGHT - 4}">trial 0</text>'
        f'<text x="{right}" y="{_HEIGHT - 4}" text-anchor="end">{wide}</text></svg>'
    )


def _table(top: Sequence[Mapping[str, Any]]) -> str:
    if not top:
        return ""
    plain = "padding:1px 24px 1px 0;border:0;text-align:left;vertical-align:top"
    cell = f"{plain};border-top:1px solid {_LINE}"
    head = "".join(
        f'<th style="{plain};width:{width};color:{_SOFT};font-weight:400">{word}</th>'
        for word, width in (("Trial", "1%"), ("Result", "1%"), ("Parameters", "98%"))
    )
    rows = "".join(
        f'<tr style="background:none"><td style="{cell}">{trial["sequence"]}</td>'
        f'<td style="{cell};font-variant-numeric:tabular-nums">{number(trial["finalValue"])}</td>'
        f'<td style="{cell}">{escape(parameters_text(trial["parameters"]))}</td></tr>'
        for trial in top[:MOST_ROWS]
    )
    return (
        '<table style="table-layout:auto;border-collapse:collapse;border:0;margin:8px 0 0;'
        'font-size:12px;width:100%">'
        f'<thead><tr style="background:none">{head}</tr></thead><tbody>{rows}</tbody></table>'
    )
