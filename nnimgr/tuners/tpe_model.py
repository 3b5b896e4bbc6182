"""TPE's model: densities of good and of bad results, from which it suggests parameter sets. Uses numpy.

The parameters of one search space are modelled together (Falkner, Klein and Hutter, ICML 2018; Watanabe 2023,
arXiv:2304.11127). A nested choice is a parameter like any other. Each of its options has a separate space,
whose parameters are learned from the trials that took this option. So the model is a tree of spaces.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nnimgr import search_space as spaces
from nnimgr.tuners.dimension import Categories, Number
from nnimgr.tuners.parzen import Axes, Mixture
from nnimgr.tuners.tpe_arguments import TpeArguments

__all__ = ["Model"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_MOST_BAD = 500  # most bad trials that form the density; more would hardly change it
_ROOM = 16  # with this number of unfinished trials, the nearest half of the candidates is left out
_FEW = 8  # up to this number of new results, each is inserted on its own instead of sorting all


class Model:
    """Model that learns from results and unfinished trials in one search space, and suggests
    parameter sets.

    A suggestion depends only on the earlier calls, their order, and ``rng``. New results are processed
    together at the next suggestion.
    """

    def __init__(self, space: spaces.Space, arguments: TpeArguments) -> None:
        self._root = _Branch(space, arguments)
        self._liar = arguments.constant_liar_type
        self._open: dict[int, Any] = {}
        self._total, self._count = 0.0, 0
        self._best, self._worst = math.inf, -math.inf

    def learn(self, parameters: Any, loss: float) -> None:
        """Add a result; lower losses are better. Values outside of the search space count as unknown."""
        self._total, self._count = self._total + loss, self._count + 1
        self._best, self._worst = min(self._best, loss), max(self._worst, loss)
        if isinstance(parameters, Mapping):
            self._root.learn(parameters, loss)

    def open(self, parameter_id: int, parameters: Any) -> None:
        """Add an unfinished trial, unless the model ignores such trials (``constant_liar_type`` None)."""
        if self._liar is not None and isinstance(parameters, Mapping):
            self._open[parameter_id] = parameters

    def close(self, parameter_id: int) -> None:
        """Remove an unfinished trial, because it has ended. If it has a result, ``learn`` is called
        for it.
        """
        self._open.pop(parameter_id, None)

    def suggest(self, rng: Random) -> dict[str, Any]:
        """Return a parameter set to try next."""
        generator = np.random.Generator(np.random.PCG64(rng.getrandbits(64)))
        return self._root.suggest(rng, generator, list(self._open.values()), self._lie())

    def _lie(self) -> float:
        match self._liar:
            case "worst":
                return self._worst
            case "mean":
                return self._total / max(1, self._count)
        return self._best


class _Branch:
    """Model of one search space in the tree: the whole space, or the parameters of a nested choice's
    option.
    """

    def __init__(self, space: spaces.Space, arguments: TpeArguments) -> None:
        self._space, self._arguments = space, arguments
        self._dimensions = [
            Number(spec) if isinstance(spec, spaces.Numeric) else Categories(spec)
            for _, spec in space.parameters
        ]
        self._axes = Axes(self._dimensions)
        self._fresh: list[Mapping[str, Any]] = []  # parameter sets of results since the last suggestion
        self._fresh_losses: list[float] = []
        self._count = 0
        # Codes of the results in the order of arrival. Only the first ``_count`` rows are in use.
        self._codes = np.empty((16, self._axes.width))
        self._losses = np.empty(16)  # losses of the results, lowest first
        # row in ``_codes`` for each of ``_losses``; of equal losses, the earlier result comes first
        self._order = np.empty(16, np.int64)
        self._modelled: tuple[tuple[int, float, bytes], Mixture, Mixture] | None = None
        self._below: dict[tuple[int, int], _Branch] = {}
        for at, (_, spec) in enumerate(space.parameters):
            if isinstance(spec, spaces.Nested):
                for index, (_, inner) in enumerate(spec.options):
                    self._below[at, index] = _Branch(inner, arguments)

    def learn(self, parameters: Mapping[str, Any], loss: float) -> None:
        self._fresh.append(parameters)
        self._fresh_losses.append(loss)

    def suggest(
        self, rng: Random, generator: np.random.Generator, lies: Sequence[Any], lie: float
    ) -> dict[str, Any]:
        """Return a parameter set of this search space to try next.

        ``lies``: the parameter sets of unfinished trials. They count as if each had the result ``lie``.
        """
        self._settle()
        if not self._count or not self._dimensions:
            return spaces.sample(self._space, rng)
        open_codes = self._encode(lies)
        codes = self._chosen(generator, open_codes, lie)
        found: dict[str, Any] = {}
        for at, (name, spec) in enumerate(self._space.parameters):
            dimension = self._dimensions[at]
            if isinstance(dimension, Number):
                found[name] = dimension.decode(float(codes[at]))
                continue
            index = int(codes[at])
            if isinstance(spec, spaces.Choice):
                found[name] = spec.options[index]
            elif isinstance(spec, spaces.Nested):
                taken = np.flatnonzero(open_codes[:, at] == index).tolist()
                there = [lies[one][name] for one in taken]
                inner = self._below[at, index].suggest(rng, generator, there, lie)
                found[name] = {"_name": spec.options[index][0], **inner}
        return found

    # ---- results ------------------------------------------------------------------------------------------

    def _encode(self, sets: Sequence[Mapping[str, Any]]) -> Floats:
        """Return the codes of parameter sets (see ``dimension``), shape (n, width)."""
        codes = np.empty((len(sets), self._axes.width))
        if not sets:
            return codes
        for at, (name, _) in enumerate(self._space.parameters):
            codes[:, at] = self._dimensions[at].encode([parameters.get(name) for parameters in sets])
        return codes

    def _settle(self) -> None:
        """Add the results since the last suggestion to the sorted arrays, and pass them to the branches
        below.
        """
        if not self._fresh:
            return
        sets, self._fresh = self._fresh, []
        losses, self._fresh_losses = self._fresh_losses, []
        codes = self._encode(sets)
        for (at, index), branch in self._below.items():
            name = self._space.parameters[at][0]
            for one in np.flatnonzero(codes[:, at] == index).tolist():
                branch.learn(sets[one][name], losses[one])
        first, self._count = self._count, self._count + len(sets)
        if self._count > len(self._losses):
            self._grow(max(self._count, 2 * len(self._losses)))
        self._codes[first : self._count] = codes
        if len(sets) > _FEW:
            self._losses[first : self._count] = losses
            self._order[first : self._count] = np.arange(first, self._count)
            order = self._losses[: self._count].argsort(kind="stable")
            self._losses[: self._count] = self._losses[order]
            self._order[: self._count] = self._order[order]
            return
        for row, loss in enumerate(losses, first):
            at = int(self._losses[:row].searchsorted(loss, "right"))
            for column, entry in ((self._losses, loss), (self._order, row)):
                column[at + 1 : row + 1] = column[at:row]
                column[at] = entry

    def _grow(self, rows: int) -> None:
        codes, losses, order = self._codes, self._losses, self._order
        self._codes, self._losses = np.empty((rows, self._axes.width)), np.empty(rows)
        self._order = np.empty(rows, np.int64)
        self._codes[: len(codes)], self._losses[: len(losses)], self._order[: len(order)] = (
            codes,
            losses,
            order,
        )

    # ---- densities and choice -----------------------------------------------------------------------------

    def _chosen(self, generator: np.random.Generator, open_codes: Floats, lie: float) -> Floats:
        """Return the codes of the parameter set to try next.

        Candidates are drawn from the density of good trials. The candidate with the largest ratio of the
        density of good trials to that of bad ones is chosen.

        Candidates near unfinished trials are not used. More unfinished trials exclude more candidates. It is
        not enough that unfinished trials count as bad: with many parameters, this does not keep many trials
        apart.
        """
        axes = self._axes
        ours, others = self._densities(open_codes, lie)
        drawn = ours.draw(self._arguments.n_ei_candidates, generator)
        promise = ours.log_density(drawn) - others.log_density(drawn)
        if len(open_codes):
            near = axes.distances(drawn, open_codes).min(axis=1)
            crowded = math.ceil((len(near) - 1) * len(open_codes) / (len(open_codes) + _ROOM))
            promise[near < np.partition(near, crowded)[crowded]] = -math.inf
        found: Floats = drawn[np.argmax(promise)]
        return found

    def _densities(self, open_codes: Floats, lie: float) -> tuple[Mixture, Mixture]:
        """Return the densities of the good and of the bad trials.

        Compute them again only if the trials have changed.
        """
        state = (self._count, lie, open_codes.tobytes())
        if self._modelled is None or self._modelled[0] != state:
            arguments, axes, count = self._arguments, self._axes, self._count
            wanted = min(math.ceil(arguments.gamma * math.sqrt(count)), arguments.linear_forgetting, count)
            good = self._codes[self._order[:wanted]]
            ours = Mixture.about(axes, good, self._improvements(wanted), arguments.prior_weight)
            bad, weights = self._bad(wanted, open_codes, lie)
            others = Mixture.about(axes, bad, weights, arguments.prior_weight)
            self._modelled = (state, ours, others)
        return self._modelled[1:]

    def _improvements(self, wanted: int) -> Floats:
        """Return the weights of the good trials: how much each is better than the best of the bad ones.

        With these weights, the density of good trials represents the expected improvement, not just the
        probability of one (Watanabe 2023). The mean weight is 1.
        """
        threshold = self._losses[wanted] if wanted < self._count else self._losses[wanted - 1]
        with np.errstate(over="ignore", invalid="ignore"):
            gains = threshold - self._losses[:wanted]
            mean = gains.mean()
        return gains / mean if mean > 0 and math.isfinite(mean) else np.ones(wanted)

    def _bad(self, wanted: int, open_codes: Floats, lie: float) -> tuple[Floats, Floats]:
        """Return codes and weights of the bad trials, including all unfinished ones.

        If unfinished trials could count as good, the search would be drawn to places without any known good
        result. The worst trials have full weight. Better trials have less weight, so that nearly good sets do
        not repel too much. If there are very many trials, only those at evenly spaced ranks are used.
        """
        arguments = self._arguments
        rows = self._order[wanted : self._count]
        before = max(int(self._losses[: self._count].searchsorted(lie, "right")) - wanted, 0)
        total = len(rows) + len(open_codes)
        weights = np.ones(total)
        faded = total - arguments.linear_forgetting
        if faded > 0:
            weights[:faded] = np.linspace(1 / total, 1.0, faded)
        own = np.concatenate([weights[:before], weights[before + len(open_codes) :]])
        if len(rows) > _MOST_BAD:
            taken = np.linspace(0, len(rows) - 1, _MOST_BAD).astype(np.int64)
            rows, own = rows[taken], own[taken] * (len(rows) / _MOST_BAD)
        codes = np.concatenate([self._codes[rows], open_codes])
        return codes, np.concatenate([own, weights[before : before + len(open_codes)]])
