"""The functions ``nni.choice``, ``nni.uniform`` and others, which describe search spaces.

Runs on Python 3.8 or newer. Each function returns one named parameter of a search space, a *dimension*. A
dimension has a default value, draws and checks values, and can describe itself in NNI's search space format.
"""

from __future__ import annotations

import math
from random import Random

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = [
    "Categorical",
    "Numerical",
    "choice",
    "loguniform",
    "normal",
    "qloguniform",
    "qnormal",
    "quniform",
    "uniform",
]


class SampleValidationError(ValueError):
    """Error: a parameter set has no value, or a wrong one, for a parameter of the search space."""


class Mutable:
    """One parameter of a search space, also called a dimension. ``label`` is its name in a parameter set."""

    def __init__(self, label: str, kind: str, value: Sequence[Any]) -> None:
        self.label = label
        self._kind, self._value = kind, list(value)

    def simplify(self) -> dict[str, Mutable]:
        """Return a mapping from the name of this parameter to this object."""
        return {self.label: self}

    def search_space(self) -> dict[str, dict[str, Any]]:
        """Return this parameter in NNI's search space format: ``{label: {"_type": ..., "_value":
        [...]}}``.
        """
        return {self.label: {"_type": self._kind, "_value": list(self._value)}}

    def default(self) -> Any:
        """Return the default value of the parameter."""
        raise NotImplementedError

    def random(self, memo: dict[str, Any] | None = None, random_state: Random | None = None) -> Any:
        """Return a random value of the parameter, and store it in ``memo``.

        If ``memo`` already has a value for the parameter, return that value.
        """
        if memo is not None and self.label in memo:
            return self.freeze(memo)
        drawn = self._draw(random_state or Random())
        if memo is not None:
            memo[self.label] = drawn
        return drawn

    def _draw(self, state: Random) -> Any:
        raise NotImplementedError

    def contains(self, sample: dict[str, Any]) -> bool:
        """Return whether the parameter set ``sample`` has a valid value for this parameter."""
        return self.label in sample and self._holds(sample[self.label])

    def _holds(self, value: Any) -> bool:
        raise NotImplementedError

    def validate(self, sample: dict[str, Any]) -> None:
        """Raise SampleValidationError if the parameter set ``sample`` has no valid value for this
        parameter.
        """
        if not self.contains(sample):
            raise SampleValidationError(f"{sample.get(self.label)!r} is not a value of {self!r}")

    def freeze(self, sample: dict[str, Any]) -> Any:
        """Return the value of this parameter in ``sample``.

        Raise SampleValidationError if it is missing or not valid.
        """
        self.validate(sample)
        return sample[self.label]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mutable) and self.search_space() == other.search_space()

    def __hash__(self) -> int:
        return hash((self.label, self._kind))


class Categorical(Mutable):
    """Parameter of a search space whose value is one of a list."""

    def __init__(self, values: Sequence[Any], *, default: Any = None, label: str) -> None:
        super().__init__(label, "choice", values)
        self.values = list(values)
        if not self.values:
            raise ValueError("give at least one choice")
        self._default = self.values[0] if default is None else default

    def default(self) -> Any:
        return self._default

    def _draw(self, state: Random) -> Any:
        return self.values[state.randrange(len(self.values))]

    def _holds(self, value: Any) -> bool:
        return value in self.values

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        return f"Categorical({self.values!r}, label={self.label!r})"


class Numerical(Mutable):
    """Numeric parameter of a search space: uniform from ``low`` to ``high``, or normal around ``mu``.

    If ``quantize`` is set, values are rounded to its multiples.
    """

    def __init__(
        self,
        low: float = -math.inf,
        high: float = math.inf,
        *,
        mu: float | None = None,
        sigma: float | None = None,
        log_distributed: bool = False,
        quantize: float | None = None,
        label: str,
    ) -> None:
        gaussian = mu is not None and sigma is not None
        if gaussian and not (sigma or 0) > 0:
            raise ValueError("sigma must be above 0")
        if not gaussian and not low < high:
            raise ValueError("low must be below high")
        if log_distributed and not gaussian and not low > 0:
            raise ValueError("low must be above 0 for a logarithmic distribution")
        self.low, self.high, self.mu, self.sigma = low, high, mu, sigma
        self.log_distributed, self.quantize = log_distributed, quantize
        kind = "q" if quantize else ""
        kind += "log" if log_distributed else ""
        kind += "normal" if gaussian else "uniform"
        value = [mu, sigma] if gaussian else [low, high]
        super().__init__(label, kind, [*value, quantize] if quantize else value)

    def default(self) -> float:
        if self.mu is not None:
            middle = self.mu
        elif self.log_distributed:
            return self._step(math.exp((math.log(self.low) + math.log(self.high)) / 2))
        else:
            middle = (self.low + self.high) / 2
        return self._step(math.exp(middle) if self.log_distributed else float(middle))

    def _draw(self, state: Random) -> float:
        if self.mu is not None and self.sigma is not None:
            drawn = state.gauss(self.mu, self.sigma)
            return self._step(math.exp(drawn) if self.log_distributed else drawn)
        if self.log_distributed:
            return self._step(math.exp(state.uniform(math.log(self.low), math.log(self.high))))
        return self._step(state.uniform(self.low, self.high))

    def _step(self, value: float) -> float:
        if self.quantize:
            value = round(value / self.quantize) * self.quantize
        return min(max(value, self.low), self.high)

    def _holds(self, value: Any) -> bool:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return False
        return self.low <= value <= self.high and math.isclose(value, self._step(value), abs_tol=1e-9)

    def __repr__(self) -> str:
        parts = [repr(self.low), repr(self.high)]
        if self.mu is not None:
            parts += [f"mu={self.mu!r}", f"sigma={self.sigma!r}"]
        if self.quantize:
            parts.append(f"q={self.quantize!r}")
        if self.log_distributed:
            parts.append("log_distributed=True")
        return f"Numerical({', '.join(parts)}, label={self.label!r})"


def choice(label: str, choices: Sequence[Any]) -> Categorical:
    """Return a parameter whose value is one of ``choices``."""
    return Categorical(choices, label=label)


def uniform(label: str, low: float, high: float) -> Numerical:
    """Return a parameter whose values are uniformly distributed from ``low`` to ``high``."""
    return Numerical(low, high, label=label)


def quniform(label: str, low: float, high: float, quantize: float) -> Numerical:
    """Return a parameter whose values are multiples of ``quantize``.

    The bounds ``low`` and ``high`` are also possible.
    """
    return Numerical(low, high, quantize=quantize, label=label)


def loguniform(label: str, low: float, high: float) -> Numerical:
    """Return a parameter with values from ``low`` to ``high`` whose logarithm is uniformly distributed."""
    return Numerical(low, high, log_distributed=True, label=label)


def qloguniform(label: str, low: float, high: float, quantize: float) -> Numerical:
    """Return a parameter like that of ``loguniform``, with values rounded to multiples of ``quantize``."""
    return Numerical(low, high, log_distributed=True, quantize=quantize, label=label)


def normal(label: str, mu: float, sigma: float) -> Numerical:
    """Return a parameter with normally distributed values."""
    return Numerical(mu=mu, sigma=sigma, label=label)


def qnormal(label: str, mu: float, sigma: float, quantize: float) -> Numerical:
    """Return a parameter like that of ``normal``, with values rounded to multiples of ``quantize``."""
    return Numerical(mu=mu, sigma=sigma, quantize=quantize, label=label)
