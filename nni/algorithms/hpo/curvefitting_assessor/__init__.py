"""The Curvefitting assessor under its import path in NNI."""

from nni.algorithms.hpo._validators import validator
from nnimgr.assessors.curvefitting import CurvefittingAssessor

__all__ = ["CurvefittingAssessor", "CurvefittingClassArgsValidator"]

CurvefittingClassArgsValidator = validator("assessor", "Curvefitting")
