"""What keeper and server say to each other: one idempotent call, opened by the keeper.

``POST /keepers/v1/{experiment_id}/{keeper_id}/sync`` with ``Authorization: Bearer <token of this keeper>``.

Request body: one line of JSON, then the payloads of the reported frames exactly as they lie in the metrics
files, in the order of ``attempts`` and, within one, of its ``events``::

    {"instance": str,            made with the keeper's directory; a wiped disk is a new instance
     "k_epoch": int,             +1, durable, at each keeper start
     "sync_no": int,             +1 at each call of this k_epoch
     "boot_id": str,
     "db_id_seen": str | null, "m_epoch_seen": int,   the last server the keeper has obeyed
     "acked_cmd": int,           all commands up to this one are applied and durable
     "seen_cmd": int,            all commands up to this one have arrived (in memory only, >= acked_cmd)
     "all": bool,                attempts lists every attempt held (first call of a k_epoch, first after
                                 the server's m_epoch has changed, and first after an answer with "all");
                                 else only those with news
     "wait": bool,               nothing to report: the server may hold the answer for up to WAIT_S
     "status": str | null,       one sentence on the keeper itself (no inotify, disk full), null: all is well
     "gpu": {"trouble": str | null,      why the GPUs of the machine cannot be read, as one sentence
             "gpus": [{"index": int,     nvidia-smi's
                       "memory": int,    MiB in use that none of its processes accounts for
                       "processes": [[pid, job_id | null]]}]},   that compute on it; null: of no trial
                                 left out: nothing new, or unknown (told in each call with "all" if it is
                                 known, and after each change)
     "host": {"cpus": float,      what processes may use of the machine
              "memory": int,      MiB, likewise
              "disk": int,        MiB that are free where the keeper works
              "version": str},    of the keeper
                                 left out: as it was told last (told in each call with "all")
     "attempts": {job_id: {
         "from": int,            position of the first frame of "events"
         "events": [int],        sizes in bytes of the payloads that follow the line
         "started": null | {"at": float, "pid": int},     unix seconds of the host
         "note": null | str,     one sentence on the attempt (repeated until the attempt is done)
         "final": null | {"reason": EndReason value or "host_lost", "code": int | null, "signal": int | null,
                          "n": int, "at": float, "message": str | null}}}}

At most MAX_BYTES of payloads or MAX_EVENTS frames a call, but at least one frame. ``final`` is sent only
together with, or after, the last frame. ``n`` is the number of frames in the sealed file.

Answer (200, JSON)::

    {"db_id": str, "m_epoch": int, "instance": str,
     "all": bool,                nothing is known here of what this keeper has said before: say all of it
     "acks": {job_id: int},      so many frames are committed (for each attempt mentioned, others at will)
     "rewind": {job_id: int},    the server misses frames from here on: send again from this position
     "done": [job_id],           the end is committed: forget the attempt (its files stay)
     "kill": [job_id],           unknown here: stop it and forget it
     "cmds": [[seq, "start", job_id, start], [seq, "stop", job_id, {"grace": seconds}],
              [seq, "update", job_id, {"index": int, "parameter": str}], [seq, "nop", job_id, {}]],
     "leave": bool,              no job is left and none will come: exit
     "gpu": bool,                the experiment uses GPUs: read them
     "reads": [[read_no, "file" | "list", directory, name, offset, follow, tail]],   wanted now; below
     "lease_s": float | null}    so long from the moment this request was sent what runs may run on
                                 (``trial_keeper.lease``); null: for ever

    start = {"trial_id": str, "attempt": int, "boot_id": str, "directory": str (relative to the experiment's),
             "command": str (for /bin/bash -c; for /bin/sh where there is no bash), "cwd": str,
             "environment": {str: str | null (unset)},
             "parameter": str (text of parameter.cfg), "log_cap": bytes,
             "lease": bool,        it may run under a lease only; left out: it needs none
             "sought": bool,       it was started before: report what became of it; left out: start it
             "code": {"sha256": str, "size": bytes}}   of its archive; left out: the code is on the host

With ``code`` the attempt gets a copy of its own in ``<directory>/code``, which is its working directory (then
``cwd`` counts for nothing) and its NNI_CODE_DIR. What the keeper does not have it fetches: ``GET
/keepers/v1/{experiment_id}/{keeper_id}/code/{sha256}`` answers with the archive, from the byte on that a
``Range: bytes=N-`` names. What the attempt has left as it was is removed after its end.

A read is not durable: it is repeated in each answer until its call arrives, and then belongs to that call.
The keeper streams what was asked for by ``POST .../reads/{read_no}``, chunked, in pieces: a byte that says
which, four of length (big-endian), and so many of content::

    d    a piece of the file ``name`` below ``directory`` (relative to the experiment's), from ``offset`` on;
         of a listing: lines of [path, bytes, unix seconds], one for each plain file below the directory
    w    nothing: there is nothing to send yet (at least every WORD_S seconds)
    e    the end, as JSON: {"error": null | "missing" | "name" | "failed", "sentence": str,
                            "complete": bool (of a listing: these are all)}

With ``tail``, which may be left out or null, a file is read from where its last so many lines begin. With
``follow`` it goes on until the attempt is sealed. An answer that comes before the end (410) means that nobody
reads any more. Neither links nor anything but plain files are read.

Whom to call is in ``<keeper's directory>/manager.json`` (0600, replaced by rename, read again before every
attempt to connect; a rewritten file ends a wait)::

    {"urls": [str],              full addresses of the sync call, https://host:port + PATH filled in, or on
                                 the server's own machine that of a socket (local_http.py); tried in turn
     "token": str, "db_id": str, "fingerprint": str | null, "authorities": str | null}

The server at a socket is known by its user. An https address is the server's if its certificate has the
fingerprint or, where ``authorities`` is neither null nor left out, if they vouch for it and the address's
name: PEM, or "" for those that this machine knows.
The token changes, in a part, with each writing of the file: a keeper that the server does not know yet has to
show the last one.

Other answers: 401 wrong token, or the experiment is not open; 404 no such call;
409 {"error", "reason": "instance" | "turn" | "fenced" | "database"}; 413 too large; 503 not open yet. The
keeper backs off and tries again on all of them, but "instance" ends it: another keeper has its place, and
what it runs counts as lost, so it stops its attempts and leaves.
"""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Sequence

PATH = "/keepers/v1/{experiment_id}/{keeper_id}/sync"
WAIT_S = 20.0
MAX_BYTES = 1 << 20
MAX_EVENTS = 5000
MAX_BODY = 8 << 20

HOST_LOST = "host_lost"
LEASE = "lease"

FILE, LISTING = "file", "list"  # kinds of reads
DATA, WORD, END = b"d", b"w", b"e"  # kinds of pieces
MISSING, BAD_NAME, FAILED = "missing", "name", "failed"
WORD_S = 5.0
PIECE_HEAD = 5  # bytes


class WireError(ValueError):
    """The body is not of this protocol."""


def encode_request(header: dict[str, Any], payloads: Sequence[bytes]) -> bytes:
    """Join the header line and the payloads (in the order of the header's attempts and events)."""
    line = json.dumps(header, separators=(",", ":")).encode("ascii")
    return b"\n".join((line, b"".join(payloads)))


def decode_request(body: bytes) -> tuple[dict[str, Any], dict[str, list[bytes]]]:
    """Split a body into its header and, per job id, the payloads of its frames. Raises WireError."""
    end = body.find(b"\n")
    if end < 0:
        raise WireError("the header line does not end")
    try:
        header = json.loads(body[:end])
        sizes = [(job, attempt["events"]) for job, attempt in header["attempts"].items()]
        at = end + 1
        payloads: dict[str, list[bytes]] = {}
        for job, events in sizes:
            cut = payloads[job] = []
            for size in events:
                if size < 0:
                    raise WireError("a negative payload size")
                cut.append(body[at : at + size])
                at += size
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise WireError(f"bad header: {error}") from error
    if at != len(body):
        raise WireError(f"payloads of {at - end - 1} bytes announced, {len(body) - end - 1} sent")
    return header, payloads


def decode_answer(body: bytes) -> dict[str, Any]:
    """An answer with every field in place. Raises WireError."""
    try:
        answer = json.loads(body)
        if not isinstance(answer["db_id"], str) or not isinstance(answer["m_epoch"], int):
            raise WireError("db_id or m_epoch of the answer has the wrong type")
        return {**_EMPTY, **answer}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise WireError(f"bad answer: {error}") from error


def read_piece(kind: bytes, content: bytes) -> bytes:
    """A piece of a read's stream."""
    return b"".join((kind, len(content).to_bytes(4, "big"), content))


def read_end(*, error: str | None = None, sentence: str = "", complete: bool = True) -> bytes:
    """Its last piece."""
    end = {"error": error, "sentence": sentence, "complete": complete}
    return read_piece(END, json.dumps(end).encode("ascii"))


_EMPTY: dict[str, Any] = {
    "instance": "",
    "all": False,
    "acks": {},
    "rewind": {},
    "done": [],
    "kill": [],
    "cmds": [],
    "leave": False,
    "gpu": False,
    "reads": [],
    "lease_s": None,
}
