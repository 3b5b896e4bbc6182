"""NNI's import path of curve fitting."""

from nnimgr.assessors.curvefitting import CurvefittingAssessor

__all__ = ["CurvefittingAssessor"]
