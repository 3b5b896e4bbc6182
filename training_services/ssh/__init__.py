"""Connections to machines over SSH: one per machine, shared by all experiments, with an attendant there."""
