"""Placement of jobs: which machine runs which job, and which GPUs, CPUs and memory the job holds there."""
