"""Create, resume, view and watch experiments through the server of a port."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from nnimgr.client.errors import ClientError, ServerGone
from nnimgr.client.servers import DEFAULT_PORT, ServerStart, answering, connect, has_left
from nnimgr.client.waits import waiting
from nnimgr.home import Home
from nnimgr.index import Index, IndexEntry, check_experiment_id, new_experiment_id
from nnimgr.spelling import capital
from nnimgr.store.location import has_database, missing_database

if TYPE_CHECKING:
    from nnimgr.client.calls import Client, Event

__all__ = [
    "ENDED",
    "RESUMABLE",
    "check_id",
    "dashboard_address",
    "ended_if_refused",
    "events_to_the_end",
    "has_command",
    "is_stopped",
    "post_experiment",
    "refuse_nni",
    "refuse_without_command",
    "refuse_without_database",
    "resume_experiment",
    "runs",
    "server_for",
    "stop_experiment",
    "surroundings",
    "view_experiment",
]

RESUMABLE = ("STOPPED", "DONE", "ERROR")
# Statuses that do not change until a user acts.
ENDED = frozenset({*RESUMABLE, "VIEWED"})
_MOST_TRIES = 3
# The experiment cannot be opened, for example because a server that is ending still has it open.
_TRY_LATER = "Try again later: {command}"


def check_id(home: Home, wanted: str | None) -> str:
    """Check the wanted experiment id and return it. If it is None, return a new id.

    Raise ClientError if the id is not valid or is the name of another experiment, or HomeError.
    """
    entries = Index(home).entries()
    if wanted is None:
        return new_experiment_id(entries)
    try:
        check_experiment_id(wanted)
    except ValueError as error:
        raise ClientError(str(error)) from error
    for entry in entries.values():
        if entry.name == wanted and wanted not in entries:
            raise ClientError(
                f"'{wanted}' cannot be the id: it is the name of experiment {entry.id}, and commands with "
                "this name would then mean the new experiment.",
                mend=_another_id(wanted, entry),
            )
    return wanted


def surroundings() -> dict[str, Any]:
    """Return the environment variables, directory and Python with which the experiment will run.

    The variables may contain secrets: send them to the server, but do not show them.
    """
    return {"environ": dict(os.environ), "cwd": os.getcwd(), "python": sys.executable}


@contextlib.contextmanager
def ended_if_refused(home: Home, port: int) -> Iterator[None]:
    """End the port's server after an error if it was started within this context and has no experiment."""
    ran = home.server_running(port) is not None
    try:
        yield
    except ClientError:
        if not ran:
            with contextlib.suppress(ClientError):  # the first error counts
                _end_unused(home, port)
        raise


def _end_unused(home: Home, port: int) -> None:
    """End a server, unless it runs or shows an experiment."""
    client, server = answering(home, port), home.server_running(port)
    if client is None or server is None or server.pid is None:
        return
    if not any(experiment["served"] for experiment in client.get("experiments")["experiments"]):
        os.kill(server.pid, signal.SIGTERM)
        has_left(server)


def refuse_nni() -> None:
    """Raise ClientError if NNI itself is installed too.

    Both NNI and nnimgr contain a package ``nni``, so a user of one would import the other's code.
    """
    for place in sys.path:
        try:
            names = os.listdir(place or ".")
        except OSError:
            continue
        if any(name.startswith("nni-") and name.endswith((".dist-info", ".egg-info")) for name in names):
            raise ClientError(
                f"NNI itself is installed in {place}, and both bring a package called nni.",
                mend=f"Remove it: {sys.executable} -m pip uninstall nni && "
                f"{sys.executable} -m pip install --force-reinstall --no-deps nnimgr",
            )


def post_experiment(
    home: Home, client: Client, body: Mapping[str, Any], *, no_token: bool = False, url_prefix: str | None
) -> Client:
    """Create the experiment. If the server ends during the request, repeat the request at a new server.

    ``body``: the configuration, search space, experiment id and result of ``surroundings``. The id prevents
    that two experiments are created. Return a client of the server that created the experiment.

    Raise ClientError.
    """
    sentence = f"waiting until the server has checked and created experiment {body['id']}"
    other = _another_id(body["id"], Index(home).entries().get(body["id"]))
    client.mends = {**client.mends, 409: other}
    try:
        with waiting(sentence):
            created, _ = client.put_new("experiments", body=body)
    except ServerGone:
        client = connect(home, client.port, no_token=no_token, url_prefix=url_prefix)
        with waiting(sentence):  # the first request may have created the experiment already
            client.put_new("experiments", body=body)
        return client
    if not created:
        raise ClientError(f"Experiment {body['id']} exists already.", mend=other)
    return client


def _another_id(wanted: str, taken_by: IndexEntry | None) -> str:
    """Return the commands to suggest if another experiment has the wanted id already, as its id or name.

    ``taken_by``: that experiment; None if the index does not have it.
    """
    that = f"see that experiment: nnictl experiment show {wanted}"
    if taken_by is not None and taken_by.status in RESUMABLE:
        that = f"continue that experiment: nnictl resume {taken_by.id}"
    return f"Choose another id: {{command}} --id {wanted[:30]}-2\n  Or {that}"


def server_for(
    home: Home, entry: IndexEntry, *, port: int | None, no_token: bool = False, url_prefix: str | None = None
) -> tuple[Client, bool]:
    """Return a client of the server for an experiment. Start this server if it does not run.

    Also return whether the experiment runs already, because the started server has adopted it: a server opens
    the experiments of its port that were running when the previous server ended. Raise ClientError if another
    server has the experiment open.
    """
    chosen = port or entry.port or DEFAULT_PORT
    _refuse_elsewhere(home, entry, chosen)
    started = chosen == entry.port and home.server_running(chosen) is None
    with ServerStart(home, chosen, no_token=no_token, url_prefix=url_prefix) as start:
        return start.client(), started and runs(entry)


def has_command(entry: IndexEntry) -> bool:
    """Return whether the experiment can run trials, unlike one that was imported without a trial command."""
    from nnimgr.store.overview import lacks_command  # loads much, and only a resume needs it

    return not lacks_command(entry.directory)


def refuse_without_command(entry: IndexEntry) -> None:
    """Raise ClientError if the experiment has no database, or was imported without a trial command, so that
    it is only shown.
    """
    refuse_without_database(entry)
    if not has_command(entry):
        raise ClientError(
            f"Experiment {entry.id} was imported without a trial command, so it cannot run trials.",
            mend="Import it again with a configuration: nnictl experiment import --from KIND SOURCE "
            f"--config FILE\n  Or see its trials: nnictl view {entry.id}",
        )


def refuse_without_database(entry: IndexEntry) -> None:
    """Raise ClientError if there is no database in the experiment's folder."""
    if not has_database(entry.directory):
        raise ClientError(
            f"{capital(missing_database(entry.id, entry.directory))}.",
            mend="If its folder was moved: nnictl view --experiment_dir FOLDER\n"
            f"  To remove it from the list: nnictl experiment delete {entry.id}",
        )


def resume_experiment(client: Client, entry: IndexEntry) -> None:
    """Resume a stopped or finished experiment, with the environment variables and Python of this process.

    Raise ClientError.
    """
    refuse_without_command(entry)
    around = surroundings()
    body = {"environ": around["environ"], "python": around["python"]}
    refused = f"Watch it: nnictl top {entry.id}"
    if entry.status == "VIEWED":
        refused = f"End the view first: nnictl stop {entry.id} && {{command}}"
    client.mends = {409: refused, 503: _TRY_LATER}
    with waiting(f"waiting until the server has resumed experiment {entry.id}"):
        client.post("experiments", entry.id, "resume", body=body, timeout_s=None)


def dashboard_address(client: Client, experiment_id: str | None = None) -> Mapping[str, Any]:
    """Return the address of the dashboard as ``url``, with a code that logs one browser in.

    It opens the experiment, or the list of experiments. ``needsToken``: whether the server needs a token.
    Raise ClientError.
    """
    page = "/" if experiment_id is None else f"/experiments/{experiment_id}"
    answer: Mapping[str, Any] = client.post("server", "login-code", body={"page": page})
    return answer


def view_experiment(client: Client, entry: IndexEntry) -> None:
    """Let the server show a stopped experiment until a user stops it again. Raise ClientError."""
    refuse_without_database(entry)
    opened = f"It is open already. See it in a browser: nnictl webui url {entry.id}"
    client.mends = {409: opened, 503: _TRY_LATER}
    with waiting(f"waiting until the server has opened experiment {entry.id}"):
        client.post("experiments", entry.id, "view", timeout_s=None)


def stop_experiment(
    client: Client,
    experiment_id: str,
    *,
    detach: bool = False,
    save: bool = False,
    sent: Callable[[], None] | None = None,
) -> Mapping[str, Any]:
    """Stop an experiment, and return the server's answer. Raise ApiError or ServerGone.

    This function waits for as long as the server runs. It prints what the stop waits for.
    """
    with waiting(lambda: str(client.get("experiments", experiment_id).get("now") or "")):
        body = {"detach": detach, **({"save": True} if save else {})}
        answer: Mapping[str, Any] = client.post(
            "experiments", experiment_id, "stop", body=body, timeout_s=None, sent=sent
        )
    return answer


def _refuse_elsewhere(home: Home, entry: IndexEntry, port: int) -> None:
    """Raise ClientError if the server of another port has the experiment open."""
    if entry.port in (None, port) or entry.status == "STOPPED":
        return
    if entry.port is not None and home.server_running(entry.port) is not None:
        raise ClientError(
            f"Experiment {entry.id} is served on port {entry.port} already.",
            mend="Use this port: leave --port out. Or stop the experiment first: "
            f"nnictl stop {entry.id} && {{command}}",
        )


def runs(entry: IndexEntry) -> bool:
    """Return whether the experiment is running, so that its status can change without a user."""
    return entry.status not in ENDED


def is_stopped(home: Home, experiment_id: str) -> bool:
    entry = Index(home).get(experiment_id)
    return entry is not None and entry.status == "STOPPED"


def events_to_the_end(home: Home, port: int, experiment_id: str, *, after: int) -> Iterator[Event]:
    """Yield the events of an experiment after the number ``after`` until it has ended or was stopped.

    An earlier end, after which the experiment was resumed, does not count. If the server dies, start a new
    server, and continue after the last event. Raise ClientError.
    """
    tries = 0
    while True:
        client = connect(home, port)
        try:
            if _has_ended(client, experiment_id, after):
                return
            for event in client.events("experiments", experiment_id, "events", after=after):
                if event is None:
                    continue
                if event.number is not None:
                    after, tries = event.number, 0
                yield event
                if event.kind == "closed":
                    return
                moved = event.kind == "ExperimentMoved" and event.fields["status"] in ENDED
                if moved and _has_ended(client, experiment_id, after):
                    return
            raise ServerGone("The server has ended the stream.")
        except ServerGone as error:
            if answering(home, port) is None and is_stopped(home, experiment_id):
                return
            tries += 1
            if tries > _MOST_TRIES:
                raise ClientError(
                    *error.lines,
                    f"The server was started {_MOST_TRIES} times without success.",
                    mend=f"See why: nnictl log stdout {experiment_id} --tail 20",
                ) from error


def _has_ended(client: Client, experiment_id: str, after: int) -> bool:
    """Return whether the experiment has ended, without events after the number ``after``."""
    profile = client.get("experiments", experiment_id)
    return profile["status"] in ENDED and after >= profile["lastNumber"]
