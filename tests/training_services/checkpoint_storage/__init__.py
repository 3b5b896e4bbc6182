"""Tests of copies of checkpoints in a storage."""
