"""Tests of the import of trials that other programs have run."""
