"""Kubernetes as a platform: one pod with a keeper per job, or a pool of pods for all jobs."""
