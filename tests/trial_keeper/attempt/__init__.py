"""Tests of ``trial_keeper.attempt``."""
