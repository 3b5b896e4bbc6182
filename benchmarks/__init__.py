"""Benchmarks. Each program prints JSON rows of ratios and figures. See README.md."""
