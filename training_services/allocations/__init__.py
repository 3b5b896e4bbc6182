"""Hosts that an engine, such as Kubernetes, Slurm or Ray, creates for jobs and takes away after them."""
