"""Tests of nnimgr.core."""
