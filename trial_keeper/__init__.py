"""The agent beside the trials. Standard library only; runs on Python 3.8 and newer."""
