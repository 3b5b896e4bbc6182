"""Agent ("keeper") that starts and watches an experiment's trials on one host.

It uses the standard library only, and runs on Python 3.8 and newer.
"""

VERSION = "0.2.0"  # version of nnimgr, which this package belongs to
