"""Machines over SSH: one connection each, shared by all experiments, with one program at its other end."""
