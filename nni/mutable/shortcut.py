"""The functions ``choice``, ``uniform`` and others under their import path in NNI 3."""

from nni._space import choice, loguniform, normal, qloguniform, qnormal, quniform, uniform

__all__ = ["choice", "loguniform", "normal", "qloguniform", "qnormal", "quniform", "uniform"]
