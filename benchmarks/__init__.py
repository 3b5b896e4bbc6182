"""Benchmarks: each prints one JSON row of ratios and figures. See README.md."""
