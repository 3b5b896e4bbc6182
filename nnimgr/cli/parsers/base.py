"""Parts that the parsers of ``nnictl`` share: the parser class, and arguments that many verbs have."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NoReturn, TypeVar

from nnimgr.client.lines import fitted
from nnimgr.spelling import capital, nearest

__all__ = [
    "DEFAULT_EXPERIMENT",
    "DEFAULT_TO_CHANGE",
    "Parser",
    "Verbs",
    "add_group",
    "add_id",
    "add_port",
    "add_verb",
    "count",
    "examples_text",
    "port",
    "seconds",
]

_Number = TypeVar("_Number", int, float)

_NNIS_ALONE = {
    "jupyter-extension": 'The dashboard is in the browser: "nnictl webui url"',
    "package": 'Register algorithms: "nnictl algo register --meta FILE"',
    "platform": 'Delete an experiment and its files on machines: "nnictl experiment delete ID"',
    "ss_gen": 'Write the search space by hand, and check it: "nnictl create --dry-run --config FILE"',
}

DEFAULT_EXPERIMENT = "default: the running one; else the newest that no user stopped while it ran"
DEFAULT_TO_CHANGE = "default: the running one; else the one that is DONE, if there is just one"
_PROGRAM = "nnictl"
# Beginnings of messages of argparse. It reports a missing argument before an option that does not exist.
_MISSING = "the following arguments are required: "
_ONE_OF = "one of the arguments "
# Words of other programs -> the verb.
_OTHER_WORDS = {"run": "create", "start": "create"}
# What somebody who wants to delete a trial must not be led to by a similar verb.
_DELETIONS = ("delete", "remove", "rm")
_NO_DELETION = "single trials are not deleted. To end a trial: nnictl trial stop -T TRIAL"
# Options of other programs -> the option.
_OTHER_OPTIONS = {
    **dict.fromkeys(("--sort", "--sort-by", "--order", "--order-by", "--limit", "--top"), "--head"),
    "-f": "--follow",
    "-n": "--tail",
}
_SETTING = "NAME=VALUE"  # metavar of options whose values may be typed without the option
_LEAST_BEGINNING = 3  # letters of the beginning of an experiment's id that is not taken for another value


# The messages are English. argparse would look for a translation of each of its words for each parser,
# which takes half of the time in which the parsers are made.
argparse._ = str  # type: ignore[attr-defined]


class Parser(argparse.ArgumentParser):
    """Argument parser that suggests the nearest command, option or value after a typing error."""

    def __init__(self, **options: Any) -> None:
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(**options)
        # Spelling of the option that a word is meant for if it is one too many, such as "--text".
        self.option_of_words: str | None = None
        # The verbs beside this one.
        self.beside: Verbs[Parser] | None = None
        self._typed: list[str] = []  # the arguments that are being parsed

    def error(self, message: str) -> NoReturn:
        """Print the usage, the message, and the command that shows the help. Exit with code 2."""
        if message.endswith("required: COMMAND"):
            self.print_help(sys.stderr)
            self.exit(2, f"\n{self.prog}: error: a command is missing\n")
        self.print_usage(sys.stderr)
        if message.startswith((_MISSING, _ONE_OF)):
            unknown = self._unknown_option()
            message = (
                f"{message}{self._with_option(message)}" if unknown is None else self._unknown([unknown])
            )
        for action in self._actions:  # of an option with three spellings, two are enough
            message = message.replace("/".join(action.option_strings), "/".join(action.option_strings[:2]))
        told = fitted(sys.stderr, f"{self.prog}: error: {message}")
        self.exit(2, f"{told}\n  See: {self.prog} --help\n")

    def _with_option(self, message: str) -> str:
        """Return the command with the missing option, if its value was typed without the option; else ""."""
        options = {"/".join(action.option_strings): action for action in self._actions}
        missing = [action for name, action in options.items() if name and message == f"{_MISSING}{name}"]
        if not missing or not self._typed or any(word.startswith("-") for word in self._typed[-2:]):
            alone = missing or message.startswith(_ONE_OF)
            return self._with_number(self._typed[0]) if self._typed and alone else ""
        option = _spelled(missing[0].option_strings)
        place = missing[0].metavar or missing[0].dest.upper()
        if settings := self._settings(self._typed):
            return f'; did you mean "{" ".join([self.prog, option, str(place), *settings])}"?'
        *others, value = map(shlex.quote, self._typed)
        if not others and any(action.dest == "id" for action in self._actions) and _is_experiment(value):
            return f'; add it: "{self.prog} {value} {option} {place}"'
        return f'; did you mean "{" ".join([self.prog, *others, option, value])}"?'

    def _settings(self, words: Sequence[str]) -> list[str]:
        """Return words such as lr=0.01, or a JSON object, as options; [] if this command takes none."""
        option = self._option_string_actions.get(self.option_of_words or "")
        if option is None or option.metavar != _SETTING:
            return []
        if words[-1].startswith("{"):
            return [f"{self.option_of_words} {_SETTING}"]
        return [f"{self.option_of_words} {shlex.quote(each)}" for each in words if "=" in each]

    def _unknown_option(self) -> str | None:
        """Return the first typed option that the command does not have, or None."""
        for word in self._typed:
            if word == "--":
                return None
            option = word.partition("=")[0]
            if not option.startswith("--") or option in self._option_string_actions:
                continue
            if not self._get_option_tuples(option):
                return word
        return None

    def _unknown(self, rest: Sequence[str]) -> str:
        """Return the message about the first of the arguments that the command does not have."""
        word, *_ = rest
        options = self._long_options()
        if word.startswith("-"):
            typed = word.partition("=")[0]
            other = _OTHER_OPTIONS.get(typed)
            what, near = "there is no option", other if other in options else self._meant(typed)
        else:
            what, near = "one argument too many:", self._with_trial(word) or self._with_words(rest)
            near = near or next((option for option in options if option == f"--{word}"), None)
            near = near or self._in_group()
        return f"{what} {word}" + ("" if near is None else f'; did you mean "{near}"?')

    def _meant(self, typed: str) -> str | None:
        """Return the option that was probably meant with an unknown one, or None."""
        options = self._long_options()
        if len(typed) > len("-x"):
            return _nearest(typed, options)
        found = [each for each in options if each.startswith(f"-{typed}")]
        return found[0] if len(found) == 1 else None

    def _with_trial(self, word: str) -> str | None:
        """Return the command with ``word`` as the value of -T, or None if it has this option already."""
        option = next((action for action in self._actions if action.dest == "trial_id"), None)
        if option is None or any(typed.startswith(tuple(option.option_strings)) for typed in self._typed):
            return None
        others = list(self._typed)
        others.remove(word)
        return shlex.join([*self.prog.split(), *others, _spelled(option.option_strings), word])

    def _in_group(self) -> str | None:
        """Return the command with this verb in the group that was typed after it, or None."""
        *above, verb = self.prog.split()
        if self.beside is None or not (words := _swapped(self.beside, verb, self._typed)):
            return None
        return shlex.join([*above, *words])

    def _with_number(self, word: str) -> str:
        """Return a hint if the word was typed as an experiment, but is the number of a trial; else ""."""
        near = self._with_trial(word) if word.isdecimal() and not _is_experiment(word, begins=True) else None
        return "" if near is None else f'; did you mean "{near}"?'

    def _with_value(self, word: str) -> str:
        """Return a hint if the word was typed as an experiment, but is a file or a value such as lr=0.01."""
        option = self._option_string_actions.get(self.option_of_words or "")
        values = self._settings([word])
        if option is not None and option.metavar == "FILE" and "." in word and not _is_experiment(word):
            values = [f"{self.option_of_words} {shlex.quote(word)}"]
        others = [shlex.quote(each) for each in self._typed if each != word]
        return f'; did you mean "{" ".join([self.prog, *others, *values])}"?' if values else ""

    def _with_words(self, rest: Sequence[str]) -> str | None:
        """Return the command with the surplus words as values of the option that takes them, or None."""
        option = self._option_string_actions.get(self.option_of_words or "")
        words = [word for word in rest if not word.startswith("-")]
        if option is None or any(typed.startswith(tuple(option.option_strings)) for typed in self._typed):
            return None
        if option.choices is not None and not set(words) <= set(option.choices):
            return None
        others = list(self._typed)
        for word in words:
            others.remove(word)
        spelling = _spelled(option.option_strings)
        values = words if isinstance(option, argparse._AppendAction) else [" ".join(words)]
        return shlex.join(
            [*self.prog.split(), *others, *(each for value in values for each in (spelling, value))]
        )

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse the arguments. Report unknown arguments here, because only here the verb's usage is known."""
        self._typed = list(sys.argv[1:] if args is None else args)
        found, rest = super().parse_known_args(args, namespace)
        if rest:
            for action in self._actions:
                if isinstance(action, argparse._SubParsersAction):
                    self._refuse_early_option(action)
            self.error(self._unknown(rest))
        word = getattr(found, "id", None)
        if word is not None and (hint := self._with_number(word) or self._with_value(word)):
            self.error(f"there is no experiment {word!r}{hint}")
        return found, rest

    def _print_message(self, message: str, file: Any = None) -> None:
        """Print a message. Unlike argparse, do not ignore that standard output cannot be written."""
        if file is not None and file is sys.stdout:
            file.write(message)
        else:
            super()._print_message(message, file)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        names = [str(choice) for choice in action.choices]
        near = _nearest(str(value), names)
        if isinstance(action, argparse._SubParsersAction):
            if value in _NNIS_ALONE:
                self.error(
                    f"{self.prog} {value} is a command of NNI, but not of nnimgr. {_NNIS_ALONE[value]}"
                )
            if value in _DELETIONS and self.prog == f"{_PROGRAM} trial":
                self.error(f"there is no command {value!r}: {_NO_DELETION}")
            self._refuse_early_option(action)
            swapped = _swapped(action, str(value), self._typed[self._typed.index(value) + 1 :])
            near = "--help" if value == "help" else _verb_of_a_group(action, str(value)) or near
            near = shlex.join(swapped) if swapped else near
            meant = None if near is None else f"{self.prog} {near}"
            if self.beside is not None and value != "help":
                meant = self._elsewhere(str(value), meant)
            hint = f'; did you mean "{meant}"?'
            if meant is None:
                hint = "" if self.prog == _PROGRAM else f"; its commands are: {', '.join(names)}"
            self.error(f"there is no command {value!r}{hint}")
        hint = "" if near is None else f'; did you mean "{near}"?'
        valid = ", ".join(names)
        raise argparse.ArgumentError(action, f"must be one of {valid}, not {value!r}{hint}")

    def _elsewhere(self, word: str, near: str | None) -> str | None:
        """Return the command to suggest for a verb that this group does not have, or None.

        ``near``: the most similar command of this group, or None.
        """
        assert self.beside is not None
        above, _, own = self.prog.rpartition(" ")
        rest = self._typed[self._typed.index(word) + 1 :]
        found = self.beside.choices.get(word)
        if found is None:
            other = (_verb_of_a_group(self.beside, word) or "").split()
            meant = _innermost(self.beside, other)
            options = [each.partition("=")[0] for each in rest if each.startswith("-")]
            if meant is not None and any(each not in meant._option_string_actions for each in options):
                rest = []
            return near if near or not other else shlex.join([*above.split(), *other, *rest])
        group = next((each for each in found._actions if isinstance(each, argparse._SubParsersAction)), None)
        if group is not None and own in group.choices:
            rest = [own, *rest]
        elif group is not None and not (rest and rest[0] in group.choices):
            rest = []
        return shlex.join([*found.prog.split(), *rest])

    def _refuse_early_option(self, verbs: argparse._SubParsersAction[Parser]) -> None:
        """Exit with an error if an option that this parser does not have was typed before a verb."""
        option = self._typed[0].partition("=")[0] if self._typed else ""
        if not option.startswith("-") or option in self._option_string_actions:
            return
        everywhere = [
            action
            for verb in _all_verbs(verbs)
            if (action := verb._option_string_actions.get(option)) is not None
        ]
        words = self._typed[1:]
        if "=" not in self._typed[0] and (
            everywhere[0].nargs != 0 if everywhere else words and not _with_group(verbs, words[0])
        ):
            words = words[1:]  # without the option's value
        early = self._typed[: len(self._typed) - len(words)]
        if words:
            words = [*(_with_group(verbs, words[0]) or words[:1]), *words[1:]]
        meant = _innermost(verbs, words)
        if meant is not None and option in meant._option_string_actions:
            command = shlex.join([*self.prog.split(), *words, *early])
            self.error(f'options come after the command: "{command}"')
        if meant is not None or not everywhere:
            known = [
                name for verb in ([meant] if meant else _all_verbs(verbs)) for name in verb._long_options()
            ]
            near = _nearest(option, dict.fromkeys(known))
            hint = "" if near is None else f'; did you mean "{near}", after the command?'
            self.error(f"there is no option {option}{hint}")
        if everywhere[0].nargs != 0:  # otherwise, argparse reports the word after the option
            if words:
                self.error(f"there is no command {words[0]!r}; options come after the command")
            self._refuse_without_verb(verbs, option, complete=len(everywhere))

    def _refuse_without_verb(
        self, verbs: argparse._SubParsersAction[Parser], option: str, *, complete: int
    ) -> None:
        """Exit with an error if any of the verbs has the option that was typed without a verb.

        ``complete``: number of verbs with this option, also in groups.
        """
        found = {name: verb._option_string_actions.get(option) for name, verb in verbs.choices.items()}
        able = [name for name, action in found.items() if action is not None]
        if not able:
            return
        others = "" if len(able) == complete else " and others"
        about_trials = [name for name in able if getattr(found[name], "dest", "") == "trial_id"]
        able = about_trials or able  # -T of some commands is a number of lines, which fewer users mean
        hint = f'did you mean "{self.prog} {able[0]} {shlex.join(self._typed)}"?'
        if len(able) > 1:
            hint = f"the commands with {option} are: {', '.join(able)}{others}"
        self.error(f"a command is missing before {option}; {hint}")

    def _long_options(self) -> list[str]:
        return [each for each in self._option_string_actions if each.startswith("--")]

    def _get_option_tuples(self, option_string: str) -> Any:
        """Return the options that begin with a shortened option. Two spellings of one option count once."""
        found: Any = super()._get_option_tuples(option_string)
        return list({id(action): (action, *rest) for action, *rest in found}.values())


Verbs = argparse._SubParsersAction


def _spelled(spellings: Sequence[str]) -> str:
    """Return the spelling of an option that the documentation uses: a long one of one word, or the first."""
    return next((each for each in spellings if each.startswith("--") and each[2:].isalpha()), spellings[0])


def _is_experiment(word: str, *, begins: bool = False) -> bool:
    """Return whether the word is the id, the beginning of the id, or the name of an experiment.

    ``begins``: a number and a very short word, too, count as the beginning of an id.
    """
    from nnimgr.home import Home, HomeError  # imported only for a message
    from nnimgr.index import Index

    try:
        entries = Index(Home.find()).entries()
    except HomeError:
        return False
    if word in entries or any(entry.name == word for entry in entries.values()):
        return True
    is_value = not begins and (word.isdecimal() or len(word) < _LEAST_BEGINNING)
    return not is_value and any(key.startswith(word) for key in entries)


def _verb_of_a_group(groups: Verbs[Parser], word: str) -> str | None:
    """Return the words for a verb that was typed without its group: "experiment list" for "list"."""
    if _OTHER_WORDS.get(word) in groups.choices:
        return _OTHER_WORDS[word]
    for name, group in groups.choices.items():
        for action in group._actions:
            if isinstance(action, argparse._SubParsersAction) and word in action.choices:
                return f"{name} {word}"
    return None


def _swapped(verbs: Verbs[Parser], verb: str, after: Sequence[str]) -> list[str]:
    """Return the words for a verb that was typed before its group: "trial stop -T 3" for "stop trial 3".

    ``after``: the words after the verb. Return [] if they do not begin with a group that has the verb.
    """
    group = verbs.choices.get(after[0]) if after else None
    for action in () if group is None else group._actions:
        if isinstance(action, argparse._SubParsersAction) and verb in action.choices:
            number = ["-T", after[1]] if after[1:] and after[1].isdecimal() else []
            return [after[0], verb, *number]
    return []


def _innermost(verbs: Verbs[Parser], words: Sequence[str]) -> Parser | None:
    """Return the parser of the verb that the words begin with, also of a verb in a group; None: no verb."""
    found = verbs.choices.get(words[0]) if words else None
    for action in () if found is None else found._actions:
        if isinstance(action, argparse._SubParsersAction):
            return _innermost(action, words[1:]) or found
    return found


def _with_group(verbs: Verbs[Parser], word: str) -> list[str]:
    """Return a verb with its group, such as ["trial", "ls"] for "ls"; [] if there is no such verb."""
    if word in verbs.choices:
        return [word]
    return (_verb_of_a_group(verbs, word) or "").split()


def _all_verbs(verbs: Verbs[Parser]) -> Iterator[Parser]:
    """Yield the parsers of all verbs, also of those in groups."""
    for verb in verbs.choices.values():
        yield verb
        for action in verb._actions:
            if isinstance(action, argparse._SubParsersAction):
                yield from _all_verbs(action)


def _nearest(word: str, names: Iterable[str]) -> str | None:
    """Return the name that is most similar to ``word``, or None."""
    known = list(names)
    for typed, meant in ((("list", "lst", "lsit"), "ls"), (("ls", "lst", "lsit"), "list")):
        if word.lower() in typed and meant in known:  # other verbs are more similar to these
            return meant
    beginnings = sorted(name for name in known if len(word) > 1 and name.startswith(word.lower()))
    return nearest(word, known) or next(iter(beginnings), None)


def examples_text(examples: Sequence[str]) -> str:
    """Return the examples of a verb as the last paragraph of its help text."""
    return "\n".join(["examples:", *(f"  {example}" for example in examples)])


def add_verb(
    verbs: Verbs[Parser],
    name: str,
    target: str,
    summary: str,
    *,
    aliases: Sequence[str] = (),
    about: str = "",
    examples: Sequence[str],
) -> Parser:
    """Add a verb to the parser. ``target``: function that runs the verb, as "module:name".

    ``about``: further lines of the verb's description.
    """
    description = f"{capital(summary)}."
    verb = verbs.add_parser(
        name,
        help=summary,
        description=f"{description}\n{about}" if about else description,
        aliases=aliases,
        epilog=examples_text(examples),
    )
    verb.beside = verbs
    verb.set_defaults(verb=target, prog=verb.prog, actions=verb._actions)
    verb.add_argument("--json", action="store_true", help="print one JSON value and nothing else")
    return verb


def add_group(verbs: Verbs[Parser], name: str, summary: str) -> Verbs[Parser]:
    """Add a verb that only groups other verbs, such as ``nnictl trial``. Return the parent of these verbs."""
    group = verbs.add_parser(name, help=summary, description=f"{capital(summary)}.")
    group.beside = verbs
    return group.add_subparsers(title="commands", metavar="COMMAND", required=True)


def add_id(
    verb: argparse.ArgumentParser, *, to_change: bool = False, default: str = DEFAULT_EXPERIMENT
) -> None:
    """Add the argument for an experiment. ``to_change``: the verb changes an experiment that is open.

    ``default``: text about the experiment that is taken if none is named.
    """
    default = DEFAULT_TO_CHANGE if to_change else default
    verb.add_argument(
        "id",
        nargs="?",
        metavar="ID",
        help=f"the experiment: its id, the beginning of its id, or its name ({default})",
    )
    add_port(verb)


def add_port(verb: argparse.ArgumentParser, help: str = "the server's port") -> None:
    verb.add_argument("-p", "--port", type=port, help=help)


def port(text: str) -> int:
    return _number(text, int, least=1, most=65_535, rule="a port is a number from 1 to 65535")


def seconds(text: str) -> float:
    return _number(text, float, least=0.1, most=3600, rule="must be from 0.1 to 3600 seconds")


def count(text: str) -> int:
    return _number(text, int, least=1, most=sys.maxsize, rule="must be a number of at least 1")


def _number(text: str, read: Callable[[str], _Number], *, least: float, most: float, rule: str) -> _Number:
    try:
        number = read(text)
    except ValueError:
        number = None
    if number is None or not least <= number <= most:
        raise argparse.ArgumentTypeError(f"{rule}, not {text!r}")
    return number
