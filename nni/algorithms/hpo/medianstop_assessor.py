"""The Medianstop assessor under its import path in NNI."""

from nni.algorithms.hpo._validators import validator
from nnimgr.assessors.medianstop import MedianstopAssessor

__all__ = ["MedianstopAssessor", "MedianstopClassArgsValidator"]

MedianstopClassArgsValidator = validator("assessor", "Medianstop")
