"""NNI's import path of median stopping."""

from nnimgr.assessors.medianstop import MedianstopAssessor

__all__ = ["MedianstopAssessor"]
