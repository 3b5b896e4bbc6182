"""Checkpoints for trials that are not written in Python, as a command.

    python3 -m nni.checkpoint save PATH [--step N]    save a file or a folder
    python3 -m nni.checkpoint load                    print the path to continue from
    python3 -m nni.checkpoint asked                   exit with 0 if the trial should save now

``load`` exits with 1 and prints nothing if the trial starts from the beginning. ``asked`` exits with 1 if the
trial need not save now.
"""

from __future__ import annotations

import argparse
import sys

from nni._checkpoint import load_checkpoint, save_checkpoint, should_checkpoint


def main() -> int:
    """Run the command. Return its exit code."""
    parser = argparse.ArgumentParser(prog="python3 -m nni.checkpoint", description="Checkpoints of a trial.")
    actions = parser.add_subparsers(dest="action", required=True)
    save = actions.add_parser("save", help="save a file or a folder as the trial's state")
    save.add_argument("path")
    save.add_argument("--step", type=int, help="the trial's own count of its progress")
    actions.add_parser("load", help="print the path of the state to continue from")
    actions.add_parser("asked", help="exit with 0 if the trial should save now")
    options = parser.parse_args()
    if options.action == "asked":
        return 0 if should_checkpoint() else 1
    if options.action == "load":
        found = load_checkpoint()
        if found is None:
            return 1
        sys.stdout.write(f"{found}\n")
        return 0
    try:
        save_checkpoint(options.path, step=options.step)
    except (OSError, ValueError) as error:
        sys.stderr.write(f"the checkpoint was not saved: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
