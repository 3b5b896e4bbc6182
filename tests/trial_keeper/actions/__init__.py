"""Tests of ``trial_keeper.actions``."""
