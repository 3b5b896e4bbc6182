"""Command line that the user has typed, for suggestions that can be pasted."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

__all__ = ["Command"]

_PLACE = re.compile(r"\{prog\}|\{command(?: ([\w-]+))?\}(?= (--[\w-]+))?")


@dataclass(frozen=True, slots=True)
class Command:
    """Command with its arguments. ``prog``: the command without them, such as "nnictl trial ls".

    ``experiment``: the argument that names the experiment, if there is one.
    """

    prog: str
    arguments: tuple[str, ...] = ()
    experiment: str | None = None

    def filled(self, mend: str) -> str:
        """Return the text with its placeholders replaced, which ``ClientError`` describes.

        An option that the text gives right after the command replaces the one that the user gave.
        """
        return _PLACE.sub(lambda place: self._text(place[0], place[1], place[2]), mend)

    def _text(self, place: str, experiment_id: str | None, replaced: str | None) -> str:
        if place == "{prog}":
            return self.prog
        arguments = [argument for argument in self.arguments if not argument.startswith(f"{replaced}=")]
        if replaced in arguments:
            at = arguments.index(replaced)
            del arguments[at : at + 2]
        if experiment_id is not None:
            if self.experiment in arguments:
                arguments.remove(self.experiment)
            arguments.insert(0, experiment_id)
        return " ".join([self.prog, *map(shlex.quote, arguments)])
