"""Warnings of typing errors in ``trialCommand``: a program or a script that does not exist.

Only a command whose beginning is simple is judged: plain words, which the shell does not change. The shell
decides about everything else when a trial starts.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from nnimgr.config.document import KeyPath
from nnimgr.config.model import ExperimentConfig, Member
from nnimgr.config.parsing import Reading
from nnimgr.config.service import Service
from nnimgr.spelling import nearest

__all__ = ["warn_of_command"]

_FIELD = "trialCommand"
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=[^\s\"'`\\()|&;<>]*")
_PROGRAM = re.compile(r"[\w.+-]+")
_PYTHON = re.compile(r"(?:.*/)?python[\d.]*")
_SWITCHES = re.compile(r"-[bBdEhiIOqsSuvx]+")  # options of Python that take no value
_SCRIPT = re.compile(r"[\w.+-][\w./+-]*\.py")
_SIMILAR = 0.7
# Keywords and builtin commands of the shells that run trials: bash, or else sh.
_OF_THE_SHELL = frozenset(
    "if then else elif fi case esac for select while until do done in function time coproc "
    ". : alias bg bind break builtin caller cd command compgen complete compopt continue declare dirs disown "
    "echo enable eval exec exit export false fc fg getopts hash help history jobs kill let local logout "
    "mapfile popd printf pushd pwd read readarray readonly return set shift shopt source suspend test times "
    "trap true type typeset ulimit umask unalias unset wait".split()
)


class _Lack(NamedTuple):
    """Program or script that does not exist: a sentence, and a similar name that exists, or None."""

    sentence: str
    near: str | None


def warn_of_command(reading: Reading, config: ExperimentConfig, service: Service) -> None:
    """Warn of a program of ``trialCommand`` that is not on PATH, and of a Python script that does not exist.

    The script is looked for in ``trialCodeDirectory``. These are only warnings, because a program or a file
    may be added later. Machines over SSH have programs of their own, so only the script is checked there.
    """
    if config.gang is not None and config.gang.roles is not None:
        return  # the roles may have commands of their own
    found: dict[tuple[KeyPath, _Lack], None] = {}  # training services may share the field
    for (path, part), member in zip(service.places(), config.members, strict=True):
        at = (*path, _FIELD) if _FIELD in part.overrides else (_FIELD,)
        found |= {(at, lack): None for lack in _lacks(config, member, reading.environ)}
    for at, lack in found:
        reading.warn(at, lack.sentence, nearest=lack.near)


def _lacks(config: ExperimentConfig, member: Member, environ: Mapping[str, str]) -> Iterator[_Lack]:
    here, directory = member.platform == "local", member.job_directory
    if not here and (member.platform != "remote" or config.shared_storage is not None):
        return
    if not os.path.isdir(directory) or "||" in member.job_command:
        return
    words = member.job_command.split()
    while words and (assigned := _ASSIGNMENT.fullmatch(words[0])):
        if assigned[1] == "PATH":
            return
        del words[0]
    if not words:
        return
    if here and (lack := _lack_of_program(words[0], directory, environ)) is not None:
        yield lack
    elif (lack := _lack_of_script(words, directory)) is not None:
        yield lack


def _lack_of_program(word: str, directory: Path, environ: Mapping[str, str]) -> _Lack | None:
    path = environ.get("PATH")  # without it, the shell has a PATH of its own
    if path is None or _PROGRAM.fullmatch(word) is None or word in _OF_THE_SHELL:
        return None
    if os.path.exists(directory / word) or shutil.which(word, path=path) is not None:
        return None
    names = {name for folder in path.split(os.pathsep) for name in _names_in(folder)}
    return _Lack(f'there is no program "{word}" on the PATH', nearest(word, sorted(names), cutoff=_SIMILAR))


def _lack_of_script(words: list[str], directory: Path) -> _Lack | None:
    if _PYTHON.fullmatch(words[0]) is None:
        return None
    script = next((word for word in words[1:] if _SWITCHES.fullmatch(word) is None), "")
    if _SCRIPT.fullmatch(script) is None or os.path.exists(directory / script):
        return None
    folder, _, name = script.rpartition("/")
    known = [each for each in _names_in(directory / folder) if each.endswith(".py")]
    near = nearest(name, sorted(known))
    if near is not None and folder:
        near = f"{folder}/{near}"
    return _Lack(f"there is no file {script} in trialCodeDirectory, {directory}", near)


def _names_in(folder: str | Path) -> list[str]:
    """Return the names of the files in a folder; none if it cannot be read."""
    try:
        return os.listdir(folder)
    except OSError:
        return []
