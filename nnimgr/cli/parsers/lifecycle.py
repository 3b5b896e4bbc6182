"""Parsers of the verbs that start, stop and watch experiments."""

from __future__ import annotations

import argparse

from nnimgr.cli.parsers.base import DEFAULT_TO_CHANGE, Parser, Verbs, add_id, add_port, add_verb, seconds

__all__ = ["add"]


def add(verbs: Verbs[Parser]) -> None:
    _create(verbs)
    resume = add_verb(
        verbs,
        "resume",
        "create:resume",
        "continue a stopped or finished experiment",
        about="This also continues an experiment whose server was killed, with its trials.",
        examples=(
            "nnictl resume ab12cd34",
            "nnictl resume               # the one whose server was killed",
            "nnictl resume --experiment_dir /media/usb/ab12cd34",
        ),
    )
    _add_brought(resume, " (default: the one whose server was killed)")
    resume.add_argument("-d", "--debug", action="store_true", help=argparse.SUPPRESS)
    _add_foreground(resume)
    _add_no_token(resume)
    view = add_verb(
        verbs,
        "view",
        "create:view",
        "show a stopped experiment without running it",
        examples=("nnictl view ab12cd34", "nnictl view --experiment_dir /media/usb/ab12cd34"),
    )
    _add_brought(view)
    _add_no_token(view)
    _stop(verbs)
    top = add_verb(
        verbs,
        "top",
        "watch:top",
        "watch an experiment, or list those that are open",
        about="Without ID, it shows the experiment that runs. If several run, or none runs and\n"
        "several are open, it lists them.",
        examples=("nnictl top", "nnictl top ab12cd34", "nnictl top --time 10"),
    )
    add_id(top, default="default: see above")
    top.add_argument("-t", "--time", type=seconds, metavar="S", help="refresh interval in seconds")


def _create(verbs: Verbs[Parser]) -> None:
    create = add_verb(
        verbs,
        "create",
        "create:create",
        "start a new experiment",
        about="With --foreground, the exit code is 0 only if the experiment is DONE and a trial\n"
        "has a usable result.",
        examples=(
            "nnictl create --config exp.yml",
            "nnictl create --config exp.yml --foreground",
            "nnictl create --config exp.yml --dry-run",
        ),
    )
    create.add_argument(
        "-c", "--config", required=True, metavar="FILE", help="the experiment's configuration"
    )
    create.add_argument("--id", dest="experiment_id", help="an id of your own for the experiment")
    create.add_argument("--dry-run", action="store_true", help="show what would start, and start nothing")
    create.add_argument("-d", "--debug", action="store_true", help="set the experiment's log level to debug")
    create.add_argument(
        "-u",
        "--url_prefix",
        "--url-prefix",
        metavar="PREFIX",
        help="put a prefix before the paths of NNI's REST API: with the prefix a/b, /api/v1/nni becomes "
        "/a/b/api/v1/nni",
    )
    add_port(create, help="the server's port (default: 8080)")
    _add_foreground(create)
    _add_no_token(create)


def _stop(verbs: Verbs[Parser]) -> None:
    stop = add_verb(
        verbs,
        "stop",
        "stop:stop",
        "stop experiments and their trials",
        examples=("nnictl stop", "nnictl stop ab12cd34", "nnictl stop 'ab*'", "nnictl stop --all"),
    )
    stop.add_argument(
        "id",
        nargs="?",
        metavar="ID",
        help="the experiment: its id, the beginning of its id, or its name; with a * at its end: "
        f"all experiments whose id or name begins so ({DEFAULT_TO_CHANGE})",
    )
    stop.add_argument("-a", "--all", action="store_true", help="stop all experiments")
    how = stop.add_mutually_exclusive_group()
    how.add_argument(
        "--detach",
        action="store_true",
        help='stop the experiment, but let its running trials continue; "nnictl resume" watches them again',
    )
    how.add_argument(
        "--save", action="store_true", help="let running trials save their state before they end"
    )
    add_port(stop, help="all experiments of this port")


def _add_brought(verb: argparse.ArgumentParser, default: str = "") -> None:
    verb.add_argument(
        "id",
        nargs="?",
        metavar="ID",
        help=f"the experiment: its id, the beginning of its id, or its name{default}",
    )
    verb.add_argument(
        "-e",
        "--experiment_dir",
        "--experiment-dir",
        metavar="DIR",
        help="the experiment's folder, if it was copied from another place",
    )
    add_port(verb)


def _add_foreground(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "-f",
        "--foreground",
        action="store_true",
        help="show the progress until the experiment is DONE, then close it; Ctrl-C stops it earlier",
    )


def _add_no_token(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "--no-token",
        action="store_true",
        help="start a server that needs no token: anyone on this machine can control it",
    )
