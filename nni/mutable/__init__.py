"""Classes for parameters of search spaces, named as in NNI 3.

Those for neural architecture search are missing.
"""

from nni._space import Categorical, Mutable, Numerical, SampleValidationError

__all__ = ["Categorical", "LabeledMutable", "Mutable", "Numerical", "SampleValidationError"]

LabeledMutable = Mutable
