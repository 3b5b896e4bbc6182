"""Base class of assessors, under NNI's import path."""

from nnimgr.algorithm import Assessor, AssessResult

__all__ = ["AssessResult", "Assessor"]
