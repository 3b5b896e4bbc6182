"""NNI's import path of the assessor's base class."""

from nnimgr.algorithm import Assessor, AssessResult

__all__ = ["AssessResult", "Assessor"]
