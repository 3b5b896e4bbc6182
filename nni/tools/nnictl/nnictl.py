"""NNI's import path of the command ``nnictl``."""

from __future__ import annotations

import argparse
import sys

from nnimgr.cli.main import main
from nnimgr.cli.parsers import nnictl_parser

__all__ = ["get_parser", "parse_args"]


def parse_args() -> None:
    """Run ``nnictl`` with the arguments of this process, and exit with its code."""
    sys.exit(main())


def get_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    return nnictl_parser()


if __name__ == "__main__":
    parse_args()
