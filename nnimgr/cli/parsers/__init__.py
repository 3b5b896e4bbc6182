"""The argument parsers of ``nnictl``: its verbs with their options, examples, and the groups in the help."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from nnimgr import __version__
from nnimgr.cli.parsers import experiments, installation, lifecycle, trials
from nnimgr.cli.parsers.base import Parser, Verbs, examples_text

__all__ = ["GROUPS", "nnictl_parser"]

# Groups of verbs in the help, in the order in which a user needs them.
GROUPS: dict[str, tuple[str, ...]] = {
    "Start and stop": ("hello", "create", "resume", "view", "stop"),
    "Watch and read": ("top", "experiment", "trial", "log", "tensorboard", "config", "webui"),
    "Change while it runs": ("update", "machine"),
    "Check and extend": ("doctor", "algo", "trainingservice", "completion"),
}

_EXAMPLES = (
    "nnictl hello                          write an example to start from",
    "nnictl create --config exp.yml        start an experiment",
    "nnictl top                            watch what runs",
    "nnictl trial ls --head 5              the five best trials",
    "nnictl log trial -T 12                what trial 12 has printed",
    "nnictl trial ls --help                a command with its options and examples",
)

_PARTS: tuple[Callable[[Verbs[Parser]], None], ...] = (
    lifecycle.add,
    experiments.add,
    trials.add,
    installation.add,
)


class _Root(Parser):
    """Parser of ``nnictl`` itself. Its help shows the verbs in groups."""

    def format_help(self) -> str:
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        formatter.add_text(self.description)
        (verbs,) = (action for action in self._actions if isinstance(action, argparse._SubParsersAction))
        summaries = {choice.dest: choice for choice in verbs._choices_actions}
        for title, names in GROUPS.items():
            formatter.start_section(title)
            formatter.add_arguments([summaries[name] for name in names])
            formatter.end_section()
        formatter.add_text(self.epilog)
        return formatter.format_help()


def nnictl_parser() -> Parser:
    """Return the parser of ``nnictl``."""
    parser = _Root(
        prog="nnictl",
        description="Run and watch experiments.",
        epilog=examples_text(_EXAMPLES),
    )
    parser.add_argument("-v", "--version", action="version", version=__version__)
    parser.set_defaults(verb="hello:hint", prog=parser.prog, actions=())
    verbs = parser.add_subparsers(metavar="COMMAND", parser_class=Parser)
    for part in _PARTS:
        part(verbs)
    return parser
