"""The model of TPE: a tree of search spaces, each with its parameters' values and the ranks of its results.

A nested choice is a parameter like any other, and below each of its options lies a space of its own, whose
parameters are learned from the results of the trials that took this option.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import numpy as np

from nnimgr import search_space as spaces
from nnimgr.tuners.parzen import Evidence, Numbers, Options
from nnimgr.tuners.tpe_arguments import TpeArguments

__all__ = ["Model"]


class Model:
    """What is known of results and open trials in one search space."""

    def __init__(self, space: spaces.Space, arguments: TpeArguments) -> None:
        self._root = _Branch(space, arguments)
        self._liar = arguments.constant_liar_type
        self._open: dict[int, Any] = {}
        self._total, self._count = 0.0, 0
        self._best, self._worst = math.inf, -math.inf

    def learn(self, parameters: Any, loss: float) -> None:
        """A result, by which lower is better."""
        self._total, self._count = self._total + loss, self._count + 1
        self._best, self._worst = min(self._best, loss), max(self._worst, loss)
        if isinstance(parameters, Mapping):
            self._root.learn(parameters, loss)

    def open(self, parameter_id: int, parameters: Any) -> None:
        """A trial that has no result yet."""
        if self._liar is not None and isinstance(parameters, Mapping):
            self._open[parameter_id] = parameters

    def close(self, parameter_id: int) -> None:
        self._open.pop(parameter_id, None)

    def suggest(self, rng: Random) -> dict[str, Any]:
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
    """One space of the tree."""

    def __init__(self, space: spaces.Space, arguments: TpeArguments) -> None:
        self._space, self._arguments = space, arguments
        self._count = 0
        self._losses: list[float] = []  # sorted
        self._order: list[int] = []  # the ordinals of these
        self._columns: dict[str, Numbers | Options] = {}
        self._below: dict[tuple[str, int], _Branch] = {}
        for name, spec in space.parameters:
            if isinstance(spec, spaces.Numeric):
                self._columns[name] = Numbers(spec)
                continue
            self._columns[name] = Options(spec)
            if isinstance(spec, spaces.Nested):
                for index, (_, inner) in enumerate(spec.options):
                    self._below[name, index] = _Branch(inner, arguments)

    def learn(self, parameters: Any, loss: float) -> None:
        """``parameters``: a mapping."""
        ordinal = self._count
        for name, spec in self._space.parameters:
            column, value = self._columns[name], parameters.get(name)
            if isinstance(column, Numbers):
                column.add(column.encode(value), ordinal)
                continue
            code = self._code(column, spec, value)
            column.add(code)
            if (below := self._below.get((name, code))) is not None:
                below.learn(value, loss)
        at = bisect_right(self._losses, loss)
        self._losses.insert(at, loss)
        self._order.insert(at, ordinal)
        self._count += 1

    def suggest(
        self, rng: Random, generator: np.random.Generator, lies: Sequence[Any], lie: float
    ) -> dict[str, Any]:
        """``lies``: the parameters, mappings, of trials that are taken to have had the result ``lie``."""
        if not self._count:
            return spaces.sample(self._space, rng)
        evidence = self._evidence(len(lies), lie)
        found: dict[str, Any] = {}
        for name, spec in self._space.parameters:
            column = self._columns[name]
            values = [parameters.get(name) for parameters in lies]
            if isinstance(column, Numbers):
                codes = [(column.encode(value), self._count + at) for at, value in enumerate(values)]
                found[name] = column.draw(evidence, codes, generator)
                continue
            taken = [self._code(column, spec, value) for value in values]
            index = column.draw(evidence, taken, generator)
            if isinstance(spec, spaces.Choice):
                found[name] = spec.options[index]
            elif isinstance(spec, spaces.Nested):
                there = [value for value, code in zip(values, taken, strict=True) if code == index]
                inner = self._below[name, index].suggest(rng, generator, there, lie)
                found[name] = {"_name": spec.options[index][0], **inner}
        return found

    @staticmethod
    def _code(column: Options, spec: spaces.Spec, value: Any) -> int:
        if isinstance(spec, spaces.Nested):
            return column.encode(value["_name"]) if isinstance(value, Mapping) and "_name" in value else -1
        return column.encode(value)

    def _evidence(self, lies: int, lie: float) -> Evidence:
        """Of the bad results the worst weigh in full, and the others the less the better they are.

        (The paper's authors let old results fade instead; what is nearly good must not repel so much.)
        """
        arguments = self._arguments
        order = np.array(self._order, np.int64)
        wanted = min(math.ceil(arguments.gamma * math.sqrt(self._count)), arguments.linear_forgetting)
        if lies:
            # Never among the good ones: the search would flock to where nothing is known to be good.
            at = max(bisect_right(self._losses, lie), wanted)
            order = np.concatenate([order[:at], np.arange(self._count, self._count + lies), order[at:]])
        good = np.zeros(len(order), np.bool_)
        good[order[:wanted]] = True
        weights = np.ones(len(order))
        bad = order[wanted:]
        faded = len(bad) - arguments.linear_forgetting
        if faded > 0:
            weights[bad[:faded]] = np.linspace(1 / len(bad), 1.0, faded)
        return Evidence(good, weights, arguments.n_ei_candidates, arguments.prior_weight)
