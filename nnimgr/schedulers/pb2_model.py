"""Model of PB2: it predicts how much a trial improves with given parameters, and chooses the best ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nnimgr.schedulers.progress import Progress
from nnimgr.search_space import Space
from nnimgr.tuners.acquisition import Search
from nnimgr.tuners.cube import Cube, Floats
from nnimgr.tuners.gaussian import Posterior, most_probable, quick
from nnimgr.tuners.points import calm

__all__ = ["most_promising"]

_NOISE = 1e-6  # added to the variance of every observation
_IGNORED = 1e5  # length scale of a feature that a kernel ignores
_CANDIDATES, _STARTS = 1000, 5  # points that the search draws, and those that it improves


def most_promising(
    space: Space,
    seen: Sequence[Progress],
    present: Progress,
    *,
    running: Sequence[Progress],
    allows: Callable[[Any], bool],
    seed: int,
) -> dict[str, Any] | None:
    """Return the parameters with the highest upper confidence bound of the gain.

    ``present``: where the trial is to continue, with the donor's parameters. Only those in ``space`` are
    changed. ``running``: stretches of other trials, whose gains are not known. Return None if no set was
    found that is allowed.
    """
    cube = Cube(space)
    known, open_ = _inside(cube, space, seen), _inside(cube, space, running)
    if len(known) < 2:
        return None
    points = np.array([point for _, point in [*known, *open_]])
    contexts = _contexts([*(each for each, _ in known), *(each for each, _ in open_), present])
    features = np.concatenate([contexts[:-1], cube.one_hot(points)], axis=1)
    gains = -calm(np.array([-each.gain for each, _ in known]))
    with quick():
        seen_features = features[: len(known)]
        model = Posterior(_fitted(seen_features, gains), seen_features, gains, _NOISE)
        model = model.believing(features[len(known) :])
        search = Search(
            cube,
            lambda found: model.predict(_with_context(contexts[-1], cube.one_hot(found))),
            size=model.size,
            smooth=True,
            pending=np.empty((0, cube.width)),
            allows=lambda found: allows({**present.parameters, **found}),
            rng=np.random.default_rng(seed),
        )
        weight = np.sqrt(0.2 * np.log(0.4 * max(model.size, 4)))  # as in the authors' program
        best = search.best(
            lambda mean, deviation: mean + weight * deviation, points, warm_up=_CANDIDATES, starts=_STARTS
        )
    return None if best is None else {**present.parameters, **best}


def _inside(cube: Cube, space: Space, progress: Sequence[Progress]) -> list[tuple[Progress, Floats]]:
    """Return the observations whose parameters are in the search space, with their points."""
    found = []
    for each in progress:
        given = each.parameters if isinstance(each.parameters, dict) else {}
        point = cube.encode({name: given[name] for name, _ in space.parameters if name in given})
        if point is not None:
            found.append((each, point))
    return found


def _contexts(progress: Sequence[Progress]) -> Floats:
    """Return when each stretch begins, and with which loss, in scales that suit the kernel; shape (n, 2)."""
    since = np.array([each.since for each in progress], np.float64)
    losses = np.array([each.loss for each in progress])
    return np.column_stack([since / max(1.0, since.max()), calm(losses)])


def _with_context(context: Floats, features: Floats) -> Floats:
    return np.concatenate([np.tile(context, (len(features), 1)), features], axis=1)


def _fitted(features: Floats, gains: Floats) -> Any:
    """Return the kernel with the most probable length scales and noise.

    The further two observations are apart in time, the less they have to do with each other.
    """
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

    others = features.shape[1] - 1  # the first feature is the time
    used, ignored = (0.05, 20.0), (_IGNORED, _IGNORED)
    time = Matern([1.0, *[_IGNORED] * others], [used, *[ignored] * others], nu=0.5)
    similar = RBF([_IGNORED, *[0.5] * others], [ignored, *[used] * others])
    kernel = ConstantKernel(1.0, (0.05, 50.0)) * similar * time + WhiteKernel(1e-2, (1e-6, 1.0))
    model = GaussianProcessRegressor(kernel, alpha=_NOISE, optimizer=most_probable)
    return model.fit(features, gains).kernel_
