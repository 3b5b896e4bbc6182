"""What trials have reported, read back through every route of NNI's that shows metrics."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.e2e.answers import Side, items

_TIMESTAMP = re.compile(r'"timestamp":\d{13}')


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """A trial that has succeeded. ``texts``: its intermediate results as JSON, ``final``: its final one."""

    id: str
    sequence: int
    texts: Sequence[str]
    final: str

    def metrics(self, kind: str | None = None) -> list[str]:
        """As NNI shows them, but with no instant. ``kind``: only PERIODICAL or FINAL ones."""
        found = [self._metric("PERIODICAL", number, text) for number, text in enumerate(self.texts)]
        finals = [self.final_metric]
        return {"PERIODICAL": found, "FINAL": finals}.get(kind or "", found + finals)

    @property
    def final_metric(self) -> str:
        return self._metric("FINAL", 0, self.final)

    def _metric(self, kind: str, number: int, text: str) -> str:
        return (
            f'{{"timestamp":0,"trialJobId":"{self.id}","parameterId":"{self.sequence}","type":"{kind}",'
            f'"sequence":{number},"data":{json.dumps(json.dumps(text))}}}'
        )


def unlike(side: Side, trials: Sequence[Reported]) -> list[str]:
    """The routes that do not say exactly what these trials, which are all of them, have reported.

    Trials that ran together may have reported in any order; each alone has its own.
    """
    return [*_of_metrics(side, trials), *_of_trials(side, trials)]


def _of_metrics(side: Side, trials: Sequence[Reported]) -> Iterator[str]:
    ordered = sorted(trials, key=lambda trial: trial.sequence)
    last = ordered[-1].sequence
    latest = [trial.metrics("PERIODICAL")[-1] for trial in ordered if trial.texts]
    finals = [trial.final_metric for trial in ordered]
    wanted: dict[str, list[str]] = {"metric-data-latest": finals + latest}
    for kind in (None, "PERIODICAL", "FINAL"):
        query = "" if kind is None else f"?type={kind}"
        wanted[f"metric-data{query}"] = [text for trial in ordered for text in trial.metrics(kind)]
        wanted |= {f"metric-data/{trial.id}{query}": trial.metrics(kind) for trial in ordered}
    wanted[f"metric-data-range/0/{last}"] = wanted["metric-data"]
    wanted |= {f"metric-data-range/{n.sequence}/{n.sequence}": n.metrics() for n in ordered}
    place = {trial.id: trial.sequence for trial in trials}
    for route, expected in wanted.items():
        shown = [(json.loads(text), text) for text in _items(side, route)]
        if route == "metric-data-latest":  # two lists, each of all trials
            shown.sort(key=lambda item: (item[0]["type"] != "FINAL", place[item[0]["trialJobId"]]))
        else:
            shown.sort(key=lambda item: place[item[0]["trialJobId"]])
        if [text for _, text in shown] != expected:
            yield route


def _of_trials(side: Side, trials: Sequence[Reported]) -> Iterator[str]:
    finals = {trial.id: f'"finalMetricData":[{trial.final_metric}]' for trial in trials}
    wanted = {"trial-jobs": list(finals), "trial-jobs?status=SUCCEEDED": list(finals)}
    wanted |= {f"trial-jobs/{trial.id}": [trial.id] for trial in trials}
    for route, ids in wanted.items():
        shown = {json.loads(text)["trialJobId"]: text for text in _items(side, route)}
        if sorted(shown) != sorted(ids) or not all(finals[trial] in shown[trial] for trial in ids):
            yield route
    exported = {entry["trialJobId"]: entry["value"] for entry in map(json.loads, _items(side, "export-data"))}
    if exported != {trial.id: trial.final for trial in trials}:
        yield "export-data"


def _items(side: Side, route: str) -> list[str]:
    """What the route lists, or the one thing it tells."""
    status, _, body = side.ask("GET", route)
    assert status == 200, (route, status, body)
    return items(_TIMESTAMP.sub('"timestamp":0', body.decode()))
