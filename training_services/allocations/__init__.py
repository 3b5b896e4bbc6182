"""Hosts that an engine, such as Kubernetes or Slurm, creates for jobs and takes away after them."""
