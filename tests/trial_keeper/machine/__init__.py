"""Tests of ``trial_keeper.machine``."""
