"""Choice of the experiment for a command: by id, beginning of an id, or name; or the only one that runs."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from nnimgr.cli.terminal import printable, shown_time
from nnimgr.cli.times import when
from nnimgr.client.calls import Client
from nnimgr.client.errors import ClientError
from nnimgr.client.experiments import (
    has_command,
    refuse_without_command,
    refuse_without_database,
    runs,
)
from nnimgr.client.lines import fitted, terminal_width
from nnimgr.client.servers import DEFAULT_PORT, connect, usable_port
from nnimgr.client.waits import waiting
from nnimgr.home import Home, HomeError
from nnimgr.index import Index, IndexEntry
from nnimgr.rules.phrases import STOPPED_BY_USER
from nnimgr.spelling import capital, nearest
from nnimgr.store.location import has_database, is_nnis_own

__all__ = [
    "ambiguous",
    "client_of",
    "convert_folder",
    "converted",
    "current_entries",
    "ending_of",
    "entries_of",
    "experiment_line",
    "is_named",
    "named",
    "newest_first",
    "newest_if_failed",
    "only_one",
    "opened_entries",
    "running_entries",
    "select",
    "status_of",
    "unnamed",
]

if TYPE_CHECKING:
    from nnimgr.store.overview import StoredEnd

T = TypeVar("T")

_LINE = "Id: %s    Name: %s    Status: %s    Port: %s    Platform: %s    StartTime: %s    EndTime: %s"
_LIST = "nnictl experiment list --all"
_MOST_CANDIDATES = 10
_NAME = 24  # most characters of a name in a list of candidates
_LEAST_STATUS = 20  # fewest characters to which a status is cut in a list of candidates
_DRAINING = ("NO_MORE_TRIAL", "TUNER_NO_MORE_TRIAL", "STOPPING")  # NNI's names, which are in the index


def entries_of(home: Home) -> dict[str, IndexEntry]:
    """Return the experiments in the index. An experiment of NNI is STOPPED if its manager process is dead."""
    try:
        entries = Index(home).entries()
    except HomeError as error:
        raise ClientError(str(error)) from error
    return {key: _refreshed(entry) for key, entry in entries.items()}


def select(
    home: Home,
    word: str | None,
    *,
    port: int | None = None,
    to_change: bool = False,
    quiet: bool = False,
) -> IndexEntry:
    """Return the experiment that ``word`` names. Without ``word``, return the only running experiment.

    If no experiment runs, return the newest that no user stopped while it ran, and name it to a person,
    except with ``quiet``. ``port`` limits the choice to the experiments of that port. ``to_change``: the
    command works only for an experiment that is not stopped and can run trials; without ``word``, it must be
    the only one. Raise ClientError if no experiment fits, or several do.
    """
    entries = entries_of(home)
    if word is not None:
        entry = named(entries, word)
        if port is not None and entry.port not in (None, port):
            at = "no port" if entry.port is None else f"port {entry.port}"
            raise ClientError(
                "Experiment id and port do not match, please check them.",
                mend=f"Experiment {entry.id} is on {at}: leave --port out.",
            )
        if to_change:
            refuse_without_command(entry)
        return entry
    chosen = _to_change(entries, port) if to_change else _to_read(entries, port)
    if chosen and not (to_change and all(entry.status == "STOPPED" for entry in chosen)):
        entry = only_one(chosen, to_change=to_change)
        if to_change:
            refuse_without_command(entry)
        elif _may_surprise(entry, entries) and not quiet and sys.stderr.isatty():
            newest = newest_first(entries.values())[0]
            sentence = f"No experiment is running. This is {_title(entry)}, {_why_chosen(entry)}."
            if newest is not entry:
                sentence += f" {_title(newest)} is newer, but {_why_not_chosen(newest)}."
            print(fitted(sys.stderr, f"INFO: {sentence}"), file=sys.stderr)
        return entry
    where = "" if port is None else f" on port {port}"
    raise unnamed(
        list(entries.values()),
        f"There is no experiment running{where}.",
        to_change=to_change,
        without="" if port is None else " without --port",
    )


def _title(entry: IndexEntry) -> str:
    return f'"{printable(entry.name)}" ({entry.id})' if entry.name else entry.id


def _why_chosen(entry: IndexEntry) -> str:
    """Return why this experiment is taken if none is named and none runs, as the end of a sentence."""
    from nnimgr.store.overview import is_detached  # most commands need no database

    if entry.status == "STOPPED" and is_detached(entry.directory):
        return "whose trials continue without a server"
    return "the newest that no user stopped while it ran"


def _why_not_chosen(entry: IndexEntry) -> str:
    """Return why a newer experiment is not taken, as the end of a sentence."""
    if entry.archived:
        return "it is archived"
    return "a user stopped it while it ran" if has_database(entry.directory) else "its files are gone"


def _may_surprise(entry: IndexEntry, entries: Mapping[str, IndexEntry]) -> bool:
    """Return whether a user may not expect that this experiment is chosen."""
    return not runs(entry) and (entry.status == "STOPPED" or len(entries) > 1)


def only_one(chosen: Sequence[IndexEntry], *, to_change: bool = False) -> IndexEntry:
    """Return the only experiment of ``chosen``. Raise ClientError if there are several.

    ``to_change``: the command works only for an experiment that is not stopped.
    """
    if len(chosen) == 1:
        return chosen[0]
    newest = newest_first(chosen)[0]
    mend = f"Name one of them: {{command {newest.id}}}"
    if to_change and newest.status == "STOPPED":
        mend = f"Resume one of them first: nnictl resume {newest.id} && {{command {newest.id}}}"
    raise ClientError(
        "There are multiple experiments, please set the experiment id...",
        plain=candidates(chosen),
        mend=mend,
    )


def unnamed(
    entries: Sequence[IndexEntry],
    sentence: str,
    *,
    to_change: bool = False,
    to_resume: bool = False,
    without: str = "",
) -> ClientError:
    """Return the error for a command that names no experiment. It lists the experiments to choose from.

    ``to_change``: the command works only after the experiment was resumed. ``to_resume``: the command resumes
    it. ``without``: option that the suggested command leaves out, such as " without --port".
    """
    if not entries:
        return ClientError(sentence, mend="Start one: nnictl create --config exp.yml")
    ordered = newest_first(entries)
    able = next(filter(has_command, ordered), None) if to_change or to_resume else None
    which = "the latest" if able in (None, ordered[0]) else "the latest that can run trials"
    latest = (able or ordered[0]).id
    again = f"{{command {latest}{without}}}"
    mend = f"Name one, for example {which}: {again}"
    if to_change and able is not None:
        mend = f"Resume one first, for example {which}: nnictl resume {latest} && {again}"
    return ClientError(sentence, plain=candidates(entries), mend=f"{mend}\n  See all: {_LIST}")


def is_named(entries: Mapping[str, IndexEntry], word: str) -> bool:
    """Return whether the word is the name or the beginning of the id of any experiment."""
    return any(key.startswith(word) or entry.name == word for key, entry in entries.items())


def named(entries: Mapping[str, IndexEntry], word: str, *, able: Collection[str] = ()) -> IndexEntry:
    """Return the experiment with the id or name ``word``, or the only one whose id begins with ``word``.

    Raise ClientError. If several fit, its last line suggests one with a status in ``able``, or else one that
    is not stopped.
    """
    if word in entries:
        return entries[word]
    found = [entry for entry in entries.values() if entry.name == word]
    found = found or [entry for key, entry in entries.items() if key.startswith(word)]
    if len(found) == 1:
        return found[0]
    if found:
        raise ambiguous(word, found, able)
    names = {*entries, *(entry.name for entry in entries.values() if entry.name)}
    near = nearest(word, sorted(names))
    hint = "." if near is None else f"; did you mean {near!r}?"
    raise ClientError(f"There is no experiment {word!r}{hint}", mend=f"See: {_LIST}")


def ambiguous(word: str, found: Sequence[IndexEntry], able: Collection[str] = ()) -> ClientError:
    """Return the error for a word that is the name, or the beginning of the id, of several experiments."""
    fitting = [entry for entry in found if entry.status in able]
    likely = newest_first(fitting or [entry for entry in found if entry.status != "STOPPED"] or found)[0]
    return ClientError(
        f"{word!r} is ambiguous: it fits {len(found)} experiments.",
        plain=candidates(found),
        mend=f"Name one of them by its id: {{command {likely.id}}}",
    )


def candidates(entries: Sequence[IndexEntry]) -> str:
    """Return one short line for each experiment, from which a user can choose. The newest one is first."""
    rows = [
        [entry.id, _short(entry.name), printable(ending_of(entry)), f"started {when(entry.started_at)}"]
        for entry in newest_first(entries)[:_MOST_CANDIDATES]
    ]
    others = sum(max(len(row[at]) for row in rows) for at in (0, 1, 3))
    room = max(_LEAST_STATUS, terminal_width() - others - 2 * len(rows[0]))
    for row in rows:
        row[2] = row[2] if len(row[2]) <= room else f"{row[2][: room - 1]}…"
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  " + "  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    left = len(entries) - len(rows)
    return "\n".join([*lines, f"  ({left} more)"] if left else lines)


def status_of(entry: IndexEntry) -> str:
    """Return the experiment's status under nnimgr's name. The index has NNI's name."""
    return "DRAINING" if entry.status in _DRAINING else entry.status


def ending_of(entry: IndexEntry) -> str:
    """Return the status of an experiment. If it is stopped or has failed, add how it has ended."""
    if entry.status not in ("STOPPED", "ERROR"):
        return status_of(entry)
    end = _stored_end(entry)
    if end is None or entry.status not in ("STOPPED", end.status):
        return entry.status
    if end.by_user:
        return "STOPPED by a user" if end.reason == STOPPED_BY_USER else f"STOPPED: {end.reason}"
    if entry.status == "STOPPED" and end.status != "STOPPED":
        return f"STOPPED after {end.status}" + ("" if end.status == "DONE" else f": {end.reason}")
    return f"{end.status}: {end.reason}"


def newest_if_failed(entries: Iterable[IndexEntry]) -> IndexEntry | None:
    """Return the newest experiment if it was stopped without a user, for example because all trials fail.

    An archived experiment does not count: a user has seen it.
    """
    newest, end = _newest_by_itself(entries)
    return newest if end is not None and end.status == "STOPPED" else None


def _newest_by_itself(entries: Iterable[IndexEntry]) -> tuple[IndexEntry | None, StoredEnd | None]:
    """Return the newest experiment with its end, if it is stopped, and no user has stopped its trials."""
    newest = next(iter(newest_first(entries)), None)
    if newest is None or newest.status != "STOPPED" or newest.archived:
        return None, None
    end = _stored_end(newest)
    return (None, None) if end is None or end.by_user else (newest, end)


def _stored_end(entry: IndexEntry) -> StoredEnd | None:
    """Return how the experiment has ended; None if its database cannot be read."""
    from nnimgr.store.errors import StoreError
    from nnimgr.store.overview import stored_end

    with contextlib.suppress(OSError, StoreError, ValueError):
        return stored_end(entry.directory)
    return None


def newest_first(entries: Iterable[IndexEntry]) -> list[IndexEntry]:
    """Return the experiments by their start. If several started together, the last in the index is first."""
    return sorted(reversed(list(entries)), key=_started, reverse=True)


def _short(name: str) -> str:
    return printable(name if len(name) <= _NAME else f"{name[: _NAME - 1]}…")


def running_entries(home: Home, *, port: int | None = None) -> list[IndexEntry]:
    """Return the running experiments, or only those of the port ``port``."""
    return [entry for entry in _opened(entries_of(home), port) if runs(entry)]


def current_entries(home: Home, *, port: int | None = None) -> list[IndexEntry]:
    """Return the experiments that a command without an id may change, and that ``top`` shows.

    These are the running ones. If no experiment runs, return those that are neither stopped nor archived, and
    the newest one if it was stopped without a user. Otherwise an older experiment would be taken for one that
    has just failed. If there is none of them, return the newest one if it has finished or failed.
    """
    return _current(entries_of(home), port)


def _current(entries: Mapping[str, IndexEntry], port: int | None) -> list[IndexEntry]:
    opened = _opened(entries, port)
    if running := [entry for entry in opened if runs(entry)]:
        return running
    here = [entry for entry in entries.values() if port in (None, entry.port)]
    listed = [entry for entry in opened if not entry.archived]
    newest, end = _newest_by_itself(here)
    if newest is None or end is None or (listed and end.status != "STOPPED"):
        return listed
    return [*listed, newest]


def _to_change(entries: Mapping[str, IndexEntry], port: int | None) -> list[IndexEntry]:
    """Return the current experiments. Those that are only viewed count if there are no others."""
    current = _current(entries, port)
    return [entry for entry in current if entry.status != "VIEWED"] or current


def _to_read(entries: Mapping[str, IndexEntry], port: int | None) -> list[IndexEntry]:
    """Return the running experiments. If none runs, return the newest that no user stopped while it ran."""
    if running := [entry for entry in _opened(entries, port) if runs(entry)]:
        return running
    for entry in newest_first(each for each in entries.values() if port in (None, each.port)):
        if entry.archived:
            continue
        if entry.status != "STOPPED":
            return [entry]
        end = _stored_end(entry)
        if end is not None and (not end.by_user or end.reason != STOPPED_BY_USER):
            return [entry]
    return []


def opened_entries(home: Home, *, port: int | None = None) -> list[IndexEntry]:
    """Return the experiments that are not stopped, or only those of the port ``port``."""
    return _opened(entries_of(home), port)


def _opened(entries: Mapping[str, IndexEntry], port: int | None) -> list[IndexEntry]:
    """Return the experiments that are not stopped, or only those of the port ``port``."""
    found = [entry for entry in entries.values() if entry.status != "STOPPED"]
    return found if port is None else [entry for entry in found if entry.port == port]


def _started(entry: IndexEntry) -> float:
    return 0.0 if entry.started_at is None else entry.started_at.timestamp()


def experiment_line(entry: IndexEntry) -> str:
    return _LINE % (
        entry.id,
        printable(entry.name) or "N/A",
        entry.status,
        "N/A" if entry.port is None or entry.status == "STOPPED" else entry.port,
        entry.platform,
        shown_time(entry.started_at),
        shown_time(entry.ended_at),
    )


def client_of(
    home: Home,
    entry: IndexEntry,
    *,
    port: int | None = None,
    to_stop: bool = False,
    without_database: bool = False,
) -> Client:
    """Return a client of the server of the experiment. Start this server if necessary. Raise ClientError.

    ``to_stop``: a stopped experiment, too, is opened, because its trials may still run.
    ``without_database``: the command also works if the experiment's database is gone.
    """
    if entry.status == "STOPPED" and not (to_stop or without_database):
        refuse_without_database(entry)
    entry, chosen = converted(home, entry), port or entry.port or DEFAULT_PORT
    only_reads = entry.status == "STOPPED" and not to_stop and not opened_entries(home, port=chosen)
    if (only_reads or to_stop) and port is None:
        chosen = usable_port(home, chosen)
    client = connect(home, chosen, only_reads=only_reads)
    client.mends = {404: f"See: nnictl trial ls {entry.id}", 409: _mend_of(entry)}
    return client


def _mend_of(entry: IndexEntry) -> str:
    """Return the command to suggest to the user if the server refuses a request about this experiment."""
    again = f"{{command {entry.id}}}"
    if entry.status == "VIEWED":
        return f"End the view, then resume it: nnictl stop {entry.id} && nnictl resume {entry.id} && {again}"
    if runs(entry):
        return f"See what the experiment does: nnictl experiment status {entry.id}"
    return f"Resume it, then repeat: nnictl resume {entry.id} && {again}"


def converted(home: Home, entry: IndexEntry) -> IndexEntry:
    """Return the experiment's entry in the index. If NNI ran the experiment, convert its files first.

    Raise ClientError.
    """
    if not is_nnis_own(entry.directory):
        return entry
    from nnimgr.core.managing.nni_folder import adopt

    return _converting(entry.id, lambda: adopt(Index(home), entry))


def convert_folder(directory: Path) -> None:
    """Convert the files of an experiment in this folder if NNI ran it. Raise ClientError."""
    if is_nnis_own(directory):
        from nnimgr.core.managing.nni_folder import convert_nnis

        _converting(directory.name, lambda: convert_nnis(directory))


def _converting(experiment_id: str, convert: Callable[[], T]) -> T:
    from nnimgr.core.running.requests import RequestRefused

    try:
        with waiting(f"converting experiment {experiment_id}, which NNI has run"):
            done = convert()
    except (RequestRefused, HomeError) as error:
        sentence = str(error)
        raise ClientError(f"{capital(sentence)}.", mend=f"See: {_LIST}") from error
    except OSError as error:
        raise ClientError(
            f"Experiment {experiment_id}, which NNI has run, cannot be converted: {error}.",
            mend=f"See: {_LIST}",
        ) from error
    sentence = (
        f"Experiment {experiment_id} was run by NNI and is now converted. NNI's own files are unchanged."
    )
    print(fitted(sys.stderr, sentence), file=sys.stderr)
    return done


def _refreshed(entry: IndexEntry) -> IndexEntry:
    import dataclasses

    ours = (entry.directory / "db" / "nnimgr.sqlite").exists()
    if ours or entry.pid is None or entry.status == "STOPPED" or _alive(entry.pid):
        return entry
    return dataclasses.replace(entry, status="STOPPED", port=None)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
