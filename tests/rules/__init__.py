"""Tests of nnimgr.rules."""
