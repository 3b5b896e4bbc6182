"""Tests of the trial keeper."""
