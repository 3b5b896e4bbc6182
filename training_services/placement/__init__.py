"""Placement: which job goes to which machine, and which resources it holds there."""
