"""Command line that the user has typed, for suggestions that can be pasted."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence

__all__ = ["Command"]

_PLACE = re.compile(r"\{prog\}|\{command(?: ([\w-]+))?(?: without (--[\w-]+))?\}(?= (--[\w-]+))?")
_ID = "id"  # name of the argument that names the experiment
_TARGET = "--to"  # option that names it for a command whose argument is something else


class Command:
    """Command with its arguments. ``prog``: the command without them, such as "nnictl trial ls".

    ``arguments``: the typed words after ``prog``. ``parsed``: argument -> its value. ``actions``: the
    arguments that the command takes.
    """

    def __init__(
        self,
        prog: str,
        arguments: Sequence[str] = (),
        *,
        parsed: Mapping[str, object] | None = None,
        actions: Sequence[argparse.Action] = (),
    ) -> None:
        self.prog = prog
        self._arguments = tuple(arguments)
        self._parsed = {} if parsed is None else parsed
        self._actions = actions

    def filled(self, mend: str) -> str:
        """Return the text with its placeholders replaced, which ``ClientError`` describes.

        An option that the text gives right after the command replaces the one that the user gave.
        """
        return _PLACE.sub(lambda place: self._text(place[0], place[1], (place[2], place[3])), mend)

    def _text(self, place: str, experiment_id: str | None, left_out: Sequence[str | None]) -> str:
        if place == "{prog}":
            return self.prog
        arguments = list(self._arguments)
        about = experiment_id
        if about is not None and self._parsed.get(_TARGET.removeprefix("--")) is not None:
            self._remove_option(arguments, _TARGET)
            arguments += [_TARGET, about]
            about = None
        for option in left_out:
            if option is not None:
                self._remove_option(arguments, option)
        if about is not None:
            arguments = self._about(arguments, about)
        return " ".join([self.prog, *map(shlex.quote, arguments)])

    def _remove_option(self, arguments: list[str], option: str) -> None:
        """Remove an option and its value from the arguments, in each spelling of the option."""
        spellings = next((each.option_strings for each in self._actions if option in each.option_strings), ())
        for spelling in spellings:
            while spelling in arguments:
                at = arguments.index(spelling)
                del arguments[at : at + 2]
            joined = f"{spelling}=" if spelling.startswith("--") else spelling
            arguments[:] = [each for each in arguments if not each.startswith(joined)]

    def _about(self, arguments: list[str], experiment_id: str) -> list[str]:
        """Return the arguments with another experiment.

        The arguments without an option come first, because otherwise argparse may mistake the experiment's id
        for another argument.
        """
        first = []
        for name, words in self._positional():
            for word in words:
                if word in arguments:
                    arguments.remove(word)
            first += [experiment_id] if name == _ID else words
        return [*first, *arguments]

    def _positional(self) -> Iterator[tuple[str, list[str]]]:
        """Yield the arguments without an option, in the command's order, each with the words given for it."""
        for action in self._actions:
            if not action.option_strings:
                value = self._parsed.get(action.dest)
                words = value if isinstance(value, list | tuple) else [] if value is None else [value]
                yield action.dest, [str(word) for word in words]
