"""Tests of nnimgr.store."""
