"""Parzen estimators of several parameters: they are densities, and know which values go together."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from nnimgr.search_space import Choice, Numeric, ParameterType
from nnimgr.tuners.dimension import Categories, Number
from nnimgr.tuners.parzen import Axes, Mixture

LINE = Number(Numeric(ParameterType.UNIFORM, 0, 1))
BELL = Number(Numeric(ParameterType.NORMAL, 0, 1))
DIGIT = Number(Numeric(ParameterType.RANDINT, 0, 10))
OPTION = Categories(Choice(("a", "b", "c")))
CODES = np.array([[0.1, 0.9], [0.12, 0.8], [0.9, 0.05], [0.85, 0.1], [1.0, 0.0]])


def about(axes: Axes, codes: NDArray[np.float64], prior_weight: float = 1.0) -> Mixture:
    return Mixture.about(axes, codes, np.ones(len(codes)), prior_weight)


def test_a_density_of_bounded_numbers_sums_up_to_one() -> None:
    middles = (np.arange(400) + 0.5) / 400
    square = np.stack([each.ravel() for each in np.meshgrid(middles, middles)], axis=1)
    density = np.exp(about(Axes([LINE, LINE]), CODES).log_density(square))
    assert density.mean() == pytest.approx(1, abs=0.01)


def test_a_density_of_an_unbounded_number_and_a_choice_sums_up_to_one() -> None:
    line = np.linspace(-3, 4, 2001)
    mixture = about(
        Axes([BELL, OPTION]), np.array([[0.4, 1.0], [1.7, 2.0], [math.nan, 0.0], [0.1, math.nan]])
    )
    total = 0.0
    for option in range(3):
        codes = np.stack([line, np.full(len(line), float(option))], axis=1)
        total += float(np.exp(mixture.log_density(codes)).sum()) * (line[1] - line[0])
    assert total == pytest.approx(1, abs=0.01)


def test_it_knows_which_values_go_together() -> None:
    mixture = about(Axes([LINE, LINE]), CODES)
    together, apart = mixture.log_density(np.array([[0.1, 0.9], [0.1, 0.05]]))
    assert together - apart > 1


def test_draws_lie_where_the_density_is() -> None:
    mixture = about(Axes([LINE, LINE]), CODES, prior_weight=0.0)
    drawn = mixture.draw(2000, np.random.default_rng(0))
    assert ((drawn >= 0) & (drawn <= 1)).all()
    high = drawn[:, 0] > 0.5
    assert high.mean() == pytest.approx(0.6, abs=0.05)
    assert drawn[high, 1].mean() < 0.3 < 0.6 < drawn[~high, 1].mean()


def test_draws_are_codes_of_values() -> None:
    mixture = about(Axes([DIGIT, OPTION]), np.array([[0.15, 2.0], [0.95, 2.0]]))
    drawn = mixture.draw(500, np.random.default_rng(0))
    assert set(np.round(drawn[:, 0] * 10 - 0.5, 9)) <= set(range(10))
    assert set(drawn[:, 1]) == {0, 1, 2}
    assert (drawn[:, 1] == 2).mean() > 0.5


def test_without_trials_and_without_weight_it_is_the_space_itself() -> None:
    axes = Axes([LINE, OPTION])
    mixture = about(axes, np.empty((0, 2)), prior_weight=0.0)
    drawn = mixture.draw(1000, np.random.default_rng(0))
    assert drawn[:, 0].mean() == pytest.approx(0.5, abs=0.05)
    assert mixture.log_density(drawn) == pytest.approx(np.full(1000, -math.log(3)))


def test_two_options_are_as_far_apart_as_the_ends_of_a_number() -> None:
    axes = Axes([LINE, OPTION])
    found = axes.distances(np.array([[0.0, 1.0]]), np.array([[1.0, 1.0], [0.0, 2.0], [1.0, 0.0]]))
    assert found[0] == pytest.approx([1, 1, math.sqrt(2)])
