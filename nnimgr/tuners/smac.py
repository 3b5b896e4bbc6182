"""SMAC: Bayesian optimisation with a random forest (Hutter, Hoos and Leyton-Brown, LION 2011).

The forest is that of the library smac, version 2. The library's own optimisers ("facades") are not used,
because they keep files and state of their own.
"""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np

from nnimgr.libraries import need
from nnimgr.tuners.acquisition import Search, improvement
from nnimgr.tuners.cube import Cube, Floats
from nnimgr.tuners.points import PointTuner, calm

__all__ = ["SMACTuner"]

_COLD = 10  # number of random sets at the start
_CHANCE = (
    0.2  # probability that a later set is random, as in smac, because a forest may overlook good regions
)
_WARM_UP = 5_000  # number of candidates drawn from the space
_STARTS = 50  # number of best candidates whose neighbours are searched
_MOST = 2000  # number of newest results with which the forest is trained
# Settings of smac's facade for hyper-parameters, but without a limit of leaves, which would reserve memory.
_FOREST: dict[str, Any] = {
    "n_trees": 10,
    "ratio_features": 1.0,
    "min_samples_split": 2,
    "min_samples_leaf": 1,
}
_FOREST |= {"max_leaf_nodes": None, "n_jobs": 1}


class SMACTuner(PointTuner):
    """Tuner that tries the parameter set with the largest expected improvement, and sometimes a
    random set.

    Unfinished trials count as if they had given the expected results. NNI's argument ``config_dedup``, which
    avoids repeated sets, has no effect, because sets do not repeat. Raise ModuleNotFoundError if smac is not
    installed.
    """

    def __init__(
        self, optimize_mode: str = "maximize", config_dedup: bool = False, seed: int | None = None
    ) -> None:
        need("the tuner SMAC", "smac")
        super().__init__(optimize_mode, seed)
        self._table: _Table | None = None

    def space_changed(self) -> None:
        super().space_changed()
        self._table = None

    def suggest(self, rng: Random, parameter_id: int) -> dict[str, Any]:
        if self.count < _COLD or not self.cube.width or rng.random() < _CHANCE:
            return self.drawn(rng)
        if self._table is None:
            self._table = _Table(self.cube)
        points, values = self.points[-_MOST:], calm(self.losses[-_MOST:])
        seed = rng.getrandbits(31)
        forest = self._table.forest(points, values, seed)
        if len(pending := self.pending):
            believed = self._table.predict(forest, pending)[0]
            points = np.concatenate([points, pending])
            forest = self._table.forest(points, np.concatenate([values, believed]), seed)
        table = self._table
        search = Search(
            self.cube,
            lambda candidates: table.predict(forest, candidates),
            size=1,
            smooth=False,
            pending=pending,
            allows=self.allows,
            rng=np.random.default_rng(rng.getrandbits(64)),
        )
        lowest = float(values.min())
        elite = self.points[np.argsort(self.losses, kind="stable")[:10]]
        found = search.best(
            lambda mean, deviation: improvement(mean, deviation, lowest),
            elite,
            warm_up=_WARM_UP,
            starts=_STARTS,
        )
        return self.drawn(rng) if found is None else found


class _Table:
    """Random forests for points of a cube. A ConfigSpace object describes the columns to the library smac."""

    def __init__(self, cube: Cube) -> None:
        from ConfigSpace import (
            CategoricalHyperparameter,
            ConfigurationSpace,
            EqualsCondition,
            UniformFloatHyperparameter,
        )

        self._cube = cube
        self._space = ConfigurationSpace()
        made = [
            CategoricalHyperparameter(str(at), range(column.options))
            if column.options
            else UniformFloatHyperparameter(str(at), 0.0, 1.0)
            for at, column in enumerate(cube.columns)
        ]
        self._space.add(*made)
        self._space.add(
            *(
                EqualsCondition(made[at], made[column.parent[0]], column.parent[1])
                for at, column in enumerate(cube.columns)
                if column.parent is not None
            )
        )
        # The cube's columns in ConfigSpace's order, which may differ from the cube's own order.
        self._order = [int(name) for name in self._space]

    def forest(self, points: Floats, values: Floats, seed: int) -> Any:
        """Return a random forest that is trained with ``values``, the scaled losses of the points."""
        from smac.model.random_forest.random_forest import RandomForest

        forest = RandomForest(self._space, seed=seed, **_FOREST)
        return forest.train(self._rows(points), values[:, None])

    def predict(self, forest: Any, points: Floats) -> tuple[Floats, Floats]:
        """Return the forest's predictions for points: means and standard deviations over the trees, each of
        shape (n,).
        """
        mean, variance = forest.predict(self._rows(points))
        return mean[:, 0], np.sqrt(np.maximum(variance[:, 0], 1e-12))

    def _rows(self, points: Floats) -> Floats:
        """Convert points to the form of ConfigSpace: options become indices, and columns that are not in use
        become NaN.
        """
        rows = points.copy()
        for at, column in enumerate(self._cube.columns):
            if column.options:
                rows[:, at] = np.minimum(np.floor(points[:, at] * column.options), column.options - 1)
        rows[~self._cube.active_in(points)] = np.nan
        return rows[:, self._order]
