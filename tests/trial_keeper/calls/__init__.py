"""Tests of ``trial_keeper.calls``."""
