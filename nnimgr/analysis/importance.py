"""Importance of each parameter for the best trials, by the method PED-ANOVA.

S. Watanabe, A. Bansal, F. Hutter: "PED-ANOVA: Efficiently Quantifying Hyperparameter Importance in Arbitrary
Subspaces", IJCAI 2023. A parameter is important if its values are distributed differently among the best
trials than among all trials. The difference of the two densities is measured by their Pearson divergence:

    v = E_all[(p_best(x) / p_all(x) - 1)^2]

In the paper, this is the variance of the parameter's marginal for the level set of the best trials, up to a
factor that all parameters share. The importance of a parameter is the share of its ``v`` in the sum over all
parameters. The time is proportional to the number of trials.

The densities are computed on a grid of bins. Densities of numbers are smoothed by Gaussian kernels with
Scott's width, as in the paper, on the logarithms if the search space is logarithmic. The mass of a kernel
beyond the parameter's range is put back into the range. Densities of categories are shares of the trials,
with one imagined trial spread evenly over the categories.

A parameter of a nested choice is rated by the trials that have it, and weighted twice: by their share in all
trials, and by their share in the best trials. A bad option of a choice occurs in few of the best trials, so
the distribution of its parameters' values in them is mostly chance. Without the second weight, these
parameters would seem more important than the choice.

A budget that the tuner adds to the parameters is left out: it says how long a trial ran, not what it tried.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nnimgr.analysis.axes import axis
from nnimgr.analysis.cache import once
from nnimgr.analysis.column import Array
from nnimgr.analysis.columns import PARAMETERS, Columns
from nnimgr.analysis.filters import matching
from nnimgr.analysis.metric import best_share, losses, minimises
from nnimgr.analysis.rung_visits import BUDGET
from nnimgr.store.bulk import Snapshot

__all__ = ["importance"]

SOURCE = "PED-ANOVA (Watanabe, Bansal, Hutter, 2023)"
BEST = 0.1  # share of the trials that count as the best trials
FEWEST_BEST = 5
FEWEST = 20  # fewest trials with a result for which importance is computed
GRID = 50
DRAWS = 50  # number of draws of the bootstrap
DRAWN = 1_000_000  # largest number of trials in all draws together, unless too few draws would be left
FEWEST_DRAWS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parameter:
    """Parameter whose importance is computed.

    ``cells``: for each trial the bin of its value. A trial that lacks the parameter has the number of bins,
    ``size``.
    """

    name: str
    cells: Array
    size: int
    categorical: bool


def importance(columns: Columns, snapshot: Snapshot, arguments: Mapping[str, Any]) -> bytes:
    """Return the importance of each parameter, as the JSON text of a ``models.Importance``.

    ``arguments`` has ``filter``, ``metric`` and ``mode``.
    """
    asked = (
        arguments.get("filter") or "",
        arguments.get("metric") or "value",
        minimises(snapshot, arguments),
    )
    answer = once(columns, ("importance", *asked), lambda: _importance(columns, snapshot, arguments))
    return json.dumps({"revision": columns.revision, **answer}, allow_nan=False).encode()


def _importance(columns: Columns, snapshot: Snapshot, arguments: Mapping[str, Any]) -> dict[str, Any]:
    loss = losses(columns, snapshot, arguments)
    among = matching(columns, arguments.get("filter") or "") & columns.of_search()
    rows = np.flatnonzero(among & ~np.isnan(loss))
    share = max(BEST, FEWEST_BEST / max(len(rows), 1))
    told = {"source": SOURCE, "trials": len(rows), "best": int(np.ceil(share * len(rows))), "parameters": []}
    if len(rows) < FEWEST:
        return told | {
            "best": 0,
            "sentence": f"Importance needs {FEWEST} trials with a result; there are {len(rows)}.",
        }
    loss = loss[rows]
    if loss.min() == loss.max():
        return told | {"sentence": f"All {len(rows)} results are the same: no parameter makes a difference."}
    parameters = [
        _parameter(columns, name, rows)
        for name in columns.arrays
        if name.startswith(PARAMETERS) and name != BUDGET and columns.present(name)[rows].any()
    ]
    parameters = [found for found in parameters if found.size > 1]
    shares = _shares(parameters, loss, share)
    if not shares.sum() > 0:
        return told | {"sentence": "All parameters are constant, or none makes a difference."}
    errors = _errors(parameters, loss, share)
    order = np.argsort(-shares, kind="stable")
    return told | {
        "sentence": None,
        "parameters": [
            {
                "name": parameters[place].name.removeprefix(PARAMETERS),
                "importance": float(shares[place]),
                "error": float(errors[place]),
            }
            for place in order
        ],
    }


def _parameter(columns: Columns, name: str, rows: Array) -> _Parameter:
    found = axis(columns, name, bins=GRID)
    return _Parameter(
        name=name, cells=found.cells[rows], size=found.bins, categorical=found.categories is not None
    )


def _errors(parameters: list[_Parameter], loss: Array, share: float) -> Array:
    """Return the standard error of each parameter's importance, estimated by bootstrap: from random samples
    of the trials, drawn with replacement.
    """
    generator = np.random.default_rng(0)
    found = []
    for _ in range(int(np.clip(DRAWN // len(loss), FEWEST_DRAWS, DRAWS))):
        drawn = generator.integers(len(loss), size=len(loss))
        sample = [replace(parameter, cells=parameter.cells[drawn]) for parameter in parameters]
        found.append(_shares(sample, loss[drawn], share))
    return np.asarray(np.std(found, axis=0))


def _shares(parameters: list[_Parameter], loss: Array, share: float) -> Array:
    """Return the importance of each parameter. All values add up to 1, or are 0 if no parameter matters."""
    best = best_share(loss, np.ones(len(loss), bool), share)
    found = np.array([_divergence(parameter, best) for parameter in parameters])
    total = found.sum()
    return found / total if total > 0 else found


def _divergence(parameter: _Parameter, best: Array) -> float:
    every = np.bincount(parameter.cells, minlength=parameter.size + 1)[:-1]
    good = np.bincount(parameter.cells[best], minlength=parameter.size + 1)[:-1]
    if not good.sum() or np.count_nonzero(every) < 2:
        return 0.0
    density = _category_density if parameter.categorical else _number_density
    p_all, p_best = density(every), density(good)
    there = p_all > 0
    divergence = np.sum(p_all[there] * (p_best[there] / p_all[there] - 1) ** 2)
    among_all, among_best = every.sum() / len(parameter.cells), good.sum() / np.count_nonzero(best)
    return float(divergence * among_all * among_best)


def _category_density(counts: Array) -> Array:
    smoothed = counts + 1 / len(counts)
    return np.asarray(smoothed / smoothed.sum())


def _number_density(counts: Array) -> Array:
    """Return the density of a numeric parameter in each bin: the smoothed ``counts`` of trials."""
    places = np.arange(len(counts))
    number = counts.sum()
    mean = (counts * places).sum() / number
    deviation = np.sqrt((counts * (places - mean) ** 2).sum() / number)
    quarter, three = np.searchsorted(np.cumsum(counts), (0.25 * number, 0.75 * number))
    spreads = [spread for spread in (deviation, (three - quarter) / 1.34) if spread > 0]
    width = max(1.059 * min(spreads, default=0.0) * number**-0.2, 0.5)
    kernels = np.exp(-0.5 * ((places[:, None] - places) / width) ** 2)
    kernels /= kernels.sum(axis=0)
    return np.asarray(kernels @ counts / number)
