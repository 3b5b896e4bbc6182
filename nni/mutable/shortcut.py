"""NNI 3's import path of ``nni.choice``, ``nni.uniform`` and others."""

from nni._space import choice, loguniform, normal, qloguniform, qnormal, quniform, uniform

__all__ = ["choice", "loguniform", "normal", "qloguniform", "qnormal", "quniform", "uniform"]
