"""NNI's import path of the assessor's module."""

from nni.algorithms.hpo.curvefitting_assessor import CurvefittingAssessor, CurvefittingClassArgsValidator

__all__ = ["CurvefittingAssessor", "CurvefittingClassArgsValidator"]
