"""A Kubernetes cluster: a pod with a keeper in it for each job, or for many; nothing to install there."""
