"""The base class of assessors under its import path in NNI."""

from nnimgr.algorithm import Assessor, AssessResult

__all__ = ["AssessResult", "Assessor"]
