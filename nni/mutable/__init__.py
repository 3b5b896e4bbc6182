"""Dimensions of search spaces under NNI 3's names, without those for neural architecture search."""

from nni._space import Categorical, Mutable, Numerical, SampleValidationError

__all__ = ["Categorical", "LabeledMutable", "Mutable", "Numerical", "SampleValidationError"]

LabeledMutable = Mutable
