"""Ray clusters as platform: each allocation is a job of the cluster that runs a keeper."""
