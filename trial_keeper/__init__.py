"""Agent that starts and watches trials on their host. Standard library only; runs on Python 3.8 and newer."""

VERSION = "0.2.0"  # version of nnimgr, which this package belongs to
