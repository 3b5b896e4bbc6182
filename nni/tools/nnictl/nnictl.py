"""The command ``nnictl`` under its import path in NNI."""

from __future__ import annotations

import argparse
import sys

from nnimgr.cli.main import main
from nnimgr.cli.parsers import nnictl_parser

__all__ = ["get_parser", "parse_args"]


def parse_args() -> None:
    """Run ``nnictl`` with the arguments of this process, and exit with its exit code."""
    sys.exit(main())


def get_parser() -> argparse.ArgumentParser:
    """Return the parser for the command line of ``nnictl``."""
    return nnictl_parser()


if __name__ == "__main__":
    parse_args()
