"""Tests of the built-in schedulers."""
