"""``nnictl stop``: stops one experiment, several, or all."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping
from typing import Any

from nnimgr.cli.selection import client_of, entries_of, named, only_one
from nnimgr.cli.terminal import Terminal
from nnimgr.client.calls import Client
from nnimgr.client.errors import ClientError
from nnimgr.client.experiments import runs, stop_experiment
from nnimgr.client.servers import has_left
from nnimgr.home import Home
from nnimgr.index import IndexEntry
from nnimgr.spelling import capital
from training_services.keepers.names import ASK, LOCAL

__all__ = ["stop", "stop_one"]


def stop(args: argparse.Namespace, terminal: Terminal) -> int:
    """Stop the selected experiments. Return 0 only if all of them were stopped.

    If an experiment cannot be stopped, the others are still tried.
    """
    terminal.act_without_reader()
    home = Home.find()
    code = 0
    results: list[dict[str, object]] = []
    meant = _meant(home, args, terminal)
    if not meant:
        terminal.info("There is no experiment running.")
        _name_detached(home, terminal)
    for entry in meant:
        if _is_at_rest(entry):
            results.append({"id": entry.id, "stillRunning": []})
            done = f"Experiment {entry.id} was stopped before."
            terminal.info(done if terminal.for_people else "Stop experiment success.")
            continue
        terminal.info(f"Stopping experiment {entry.id}")
        try:
            client = client_of(home, entry, to_stop=True)
            answer = stop_one(home, client, entry.id, terminal=terminal, detach=args.detach, save=args.save)
        except ClientError as error:
            code = 1
            results.append({"id": entry.id, "error": "\n".join(error.lines)})
            if not terminal.as_json:
                terminal.fail(error)
            continue
        more = {key: answer[key] for key in ("unsaved", "left") if answer.get(key)}
        results.append({"id": entry.id, "stillRunning": answer["stillRunning"], **more})
        done = f"Experiment {entry.id} is stopped."
        terminal.info(done if terminal.for_people else "Stop experiment success.")
        _say_about_trials(answer, entry, terminal, detach=args.detach)
    if terminal.as_json:
        terminal.json({"stopped": results})
    return code


def _say_about_trials(
    answer: Mapping[str, Any], entry: IndexEntry, terminal: Terminal, *, detach: bool
) -> None:
    """Print which trials still run, which had saved nothing, and what may be left on machines."""
    from nnimgr.store.overview import stored_titles

    for sentence in answer.get("left", ()):
        terminal.warn(f"Something may be left. {capital(sentence)}.")
    still = ", ".join(stored_titles(entry.directory, answer["stillRunning"]))
    unsaved = stored_titles(entry.directory, answer.get("unsaved", ()))
    if unsaved:
        which = "1 trial" if len(unsaved) == 1 else f"{len(unsaved)} trials"
        terminal.warn(
            f"{which} had saved nothing, and {'was' if len(unsaved) == 1 else 'were'} canceled: "
            f"{', '.join(unsaved)}. To run the parameters again, from the beginning: nnictl resume {entry.id}"
        )
    if still and detach:
        terminal.info(f"These trials continue: {still}. To manage them again: nnictl resume {entry.id}")
    elif still:
        terminal.warn(
            f"These trials may still run on machines that do not answer: {still}. They end when the machines "
            f"answer again while a server runs. See: nnictl trial ls {entry.id}"
        )


def _name_detached(home: Home, terminal: Terminal) -> None:
    """Name the stopped experiments with trials that still run here, for example after ``--detach``."""
    from nnimgr.store.overview import stored_live_trials

    for entry in entries_of(home).values():
        if entry.status == "STOPPED" and stored_live_trials(entry.directory):
            terminal.warn(
                f"Trials of experiment {entry.id} may still run, though it is stopped. "
                f"To stop them: nnictl stop {entry.id}"
            )


def _is_at_rest(entry: IndexEntry) -> bool:
    """Return whether the experiment is stopped, and none of its trials can run.

    A trial may still run after ``--detach``, or on a machine that did not answer. Then a server has to stop
    it.
    """
    from nnimgr.store.overview import stored_live_trials

    away = entry.platform not in (LOCAL, ASK)  # trials may run on other machines
    return entry.status == "STOPPED" and not away and not stored_live_trials(entry.directory)


def stop_one(
    home: Home,
    client: Client,
    experiment_id: str,
    *,
    terminal: Terminal,
    detach: bool = False,
    save: bool = False,
) -> Mapping[str, Any]:
    """Stop an experiment, and return the server's answer."""
    server = home.server_running(client.port)
    answer = stop_experiment(client, experiment_id, detach=detach, save=save)
    if answer["serverLeaves"] and not has_left(server):
        running = "" if server is None or server.pid is None else f" (process {server.pid})"
        terminal.warn(
            f"The experiment is stopped, but the server on port {client.port}{running} has not ended yet."
        )
    for shown in answer.get("tensorboards", ()):
        terminal.info(
            f"The server on port {client.port} stays, because TensorBoard shows experiment {shown}. To end "
            f"TensorBoard: nnictl tensorboard stop {shown}"
        )
    return answer


def _meant(home: Home, args: argparse.Namespace, terminal: Terminal) -> list[IndexEntry]:
    """Return the experiments to stop, which the arguments select by NNI's rules.

    Users give an id, the beginning of an id, a name, the beginning of ids or names with ``*``, a port or
    ``--all``. Without any of these, the only running experiment is selected.
    """
    wanted: str | None = args.id
    if wanted == "all":
        raise ClientError(
            '"nnictl stop all" is not a command.', mend="Stop all experiments: nnictl stop --all"
        )
    if args.all and wanted is not None:
        raise ClientError(
            f"Name one experiment, or give --all: you gave both, {wanted!r} and --all.",
            mend=f"Stop only this one: nnictl stop {shlex.quote(wanted)}\n  Stop all: nnictl stop --all",
        )
    entries = entries_of(home)
    opened = [entry for entry in entries.values() if entry.status != "STOPPED"]
    if args.all and args.port is None:
        return opened
    if wanted is None and args.port is None:
        if not opened:
            mend = "See the stopped ones: nnictl experiment list --all"
            mend = mend if entries else "Start one: nnictl create --config exp.yml"
            raise ClientError("There is no experiment running.", mend=mend)
        return [only_one([entry for entry in opened if runs(entry)] or opened)]
    if wanted is None:
        found = [entry for entry in opened if entry.port == args.port]
        if not found:
            raise ClientError(
                f"There is no experiment running on port {args.port}.",
                mend="See: nnictl experiment list --all",
            )
        return found
    if wanted.endswith("*"):
        begin = wanted[:-1]
        found = [each for each in opened if each.id.startswith(begin) or each.name.startswith(begin)]
        if not found:
            raise ClientError(
                f"There is no experiment running whose id or name begins with {begin!r}.",
                mend="See: nnictl experiment list --all",
            )
    else:
        # An experiment that is stopped already makes no name and no beginning of an id ambiguous. But its
        # whole name is never taken for the beginning of another one's id.
        named_so = {entry.id for entry in entries.values() if entry.name == wanted}
        fits = any(entry.id in named_so if named_so else entry.id.startswith(wanted) for entry in opened)
        meant = {entry.id: entry for entry in opened}
        found = [named(meant if fits and wanted not in entries else entries, wanted)]
    if args.port is not None and any(entry.port != args.port for entry in found):
        raise ClientError(
            "Experiment id and port do not match, please check them.",
            mend=f"Stop it on any port: {{prog}} {shlex.quote(wanted)}{' --detach' if args.detach else ''}",
        )
    return found
