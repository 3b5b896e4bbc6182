"""The agent beside the trials. Standard library only; runs on Python 3.8 and newer."""

VERSION = "0.2.0"  # of nnimgr, which it is a part of
