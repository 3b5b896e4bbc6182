"""Platforms with machines that stay: this machine, and machines over SSH."""
