"""Tests of ``trial_keeper.core``."""
