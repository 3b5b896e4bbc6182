"""Slurm as a platform: allocations are pilots, in each of which a keeper runs many trials."""
