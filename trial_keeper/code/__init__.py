"""Code of trials on this machine: one store for all experiments, and one copy for each attempt."""
