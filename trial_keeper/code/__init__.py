"""The code of trials on this machine: one store for all experiments, and a copy for each attempt."""
