"""The Curvefitting assessor under the import path of its module in NNI."""

from nni.algorithms.hpo.curvefitting_assessor import CurvefittingAssessor, CurvefittingClassArgsValidator

__all__ = ["CurvefittingAssessor", "CurvefittingClassArgsValidator"]
