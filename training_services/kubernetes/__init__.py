"""Kubernetes as a platform: each job gets its own pod with a keeper, or all jobs share a pool of pods."""
