"""Protocol between keeper and server: one idempotent call, which the keeper makes.

``POST /keepers/v1/{experiment_id}/{keeper_id}/sync`` with ``Authorization: Bearer <token of this keeper>``.

Request body: one line of JSON, then the payloads of the reported frames, byte for byte as in the metrics
files, in the order of ``attempts`` and, within an attempt, of its ``events``::

    {"instance": str,            created with the keeper's directory; a wiped disk gives a new instance
     "k_epoch": int,             +1, durable, at each keeper start
     "sync_no": int,             +1 at each call of this k_epoch
     "boot_id": str,
     "db_id_seen": str | null, "m_epoch_seen": int,   the last server whose answer the keeper has applied
     "acked_cmd": int,           all commands up to this one are applied and durable
     "seen_cmd": int,            all commands up to this one have arrived (in memory only, >= acked_cmd)
     "all": bool,                attempts lists every attempt held (first call of a k_epoch, first after
                                 the server's m_epoch has changed, and first after an answer with "all");
                                 else only attempts with news
     "wait": bool,               no news: the server may hold the answer for up to WAIT_S
     "status": str | null,       errors of the keeper itself, as one sentence (disk full); null: none
     "gpu": {"trouble": str | null,      why the GPUs of the machine cannot be read, as one sentence
             "gpus": [{"index": int,     index in nvidia-smi
                       "memory": int,    MiB in use beyond the memory of the listed processes
                       "processes": [[pid, job_id | null]]}]},   compute processes; null: not a trial's
                                 omitted: unchanged or unknown (sent in each call with "all" if known,
                                 and after each change)
     "host": {"cpus": float,      CPUs that processes may use
              "memory": int,      MiB that processes may use
              "disk": int,        free MiB where the keeper works
              "version": str},    the keeper's version
                                 left out: unchanged (sent in each call with "all")
     "attempts": {job_id: {
         "from": int,            position of the first frame of "events"
         "events": [int],        sizes in bytes of the payloads that follow the line
         "started": null | {"at": float, "pid": int},     unix seconds of the host
         "note": null | str,     one sentence on the attempt (repeated until the attempt is done)
         "final": null | {"reason": EndReason value or "host_lost", "code": int | null, "signal": int | null,
                          "n": int, "at": float, "message": str | null}}}}

A call has at most MAX_BYTES of payloads and MAX_EVENTS frames, but may always have one frame. ``final`` is
sent only with or after the last frame. ``n`` is the number of frames in the sealed file.

Answer (200, JSON)::

    {"db_id": str, "m_epoch": int, "instance": str,
     "all": bool,                the server knows no earlier report of this keeper: report everything
     "acks": {job_id: int},      number of committed frames (of each attempt in the request, perhaps others)
     "rewind": {job_id: int},    the server misses frames: send again from this position
     "done": [job_id],           the end is committed: forget the attempt (its files stay)
     "kill": [job_id],           the server does not know the attempt: stop and forget it
     "cmds": [[seq, "start", job_id, start], [seq, "stop", job_id, {"grace": seconds}],
              [seq, "update", job_id, {"index": int, "parameter": str}], [seq, "nop", job_id, {}]],
     "leave": bool,              no job is left and none will come: exit
     "gpu": bool,                the experiment uses GPUs: read them
     "reads": [[read_no, "file" | "list", directory, name, offset, follow, tail]],   current reads; below
     "lease_s": float | null}    how long attempts may run, from the moment this request was sent
                                 (``trial_keeper.core.lease``); null: without limit

    start = {"trial_id": str, "attempt": int, "boot_id": str, "directory": str (relative to the experiment's),
             "command": str (for /bin/bash -c; for /bin/sh where there is no bash), "cwd": str,
             "environment": {str: str | null (unset)},
             "parameter": str (text of parameter.cfg), "log_cap": bytes,
             "lease": bool,        the attempt may run only under a lease; left out: no lease is needed
             "sought": bool,       the attempt was started earlier: report its state; left out: start it
             "code": {"sha256": str, "size": bytes}}   code archive; left out: the code is on the host

With ``code`` the attempt gets its own copy in ``<directory>/code``, which is its working directory (``cwd``
is then ignored) and its NNI_CODE_DIR. The keeper fetches an archive that it lacks: ``GET
/keepers/v1/{experiment_id}/{keeper_id}/code/{sha256}`` answers with the archive, from byte N on with
``Range: bytes=N-``. Files of the copy that the attempt has not changed are removed after its end.

A read is not durable: each answer repeats a read until its call arrives, and the call then owns the read.
The keeper streams the data with ``POST .../reads/{read_no}``, chunked, in pieces: one byte for the kind,
four for the length (big-endian), then the content::

    d    a piece of the file ``name`` below ``directory`` (relative to the experiment's), from ``offset`` on;
         of a listing: lines of [path, bytes, unix seconds], one for each plain file below the directory
    w    empty: no data yet (at least every WORD_S seconds)
    e    the end, as JSON: {"error": null | "missing" | "name" | "failed", "sentence": str,
                            "complete": bool (of a listing: no file is left out)}

With ``tail``, which may be left out or null, a read begins at the last ``tail`` lines of the file. With
``follow`` the read continues until the attempt is sealed. An answer before the end (410) means that the
reader has left. Only plain files are read, and links are not followed.

The server's address is in ``<keeper's directory>/manager.json`` (0600, replaced by rename, read again before
every attempt to connect; a rewritten file ends a wait)::

    {"urls": [str],              full addresses of the sync call, tried in turn: https://host:port + PATH, or
                                 a socket's address on the server's own machine (local_http.py)
     "token": str, "db_id": str, "fingerprint": str | null, "authorities": str | null}

A server at a socket is authenticated by its user. A server at an https address is authenticated by its
certificate's fingerprint or, unless ``authorities`` is null or left out, by an authority that vouches for the
certificate and the host name. ``authorities`` is PEM, or "" for the authorities of this machine.
A part of the token changes with each rewrite of the file: a keeper that the server does not know yet must
send the latest token.

Other answers: 401 wrong token, or the experiment is not open; 404 unknown call;
409 {"error", "reason": "instance" | "turn" | "fenced" | "database"}; 413 too large; 503 not open yet. The
keeper backs off and retries after each of these answers except "instance": another keeper has replaced this
keeper, whose attempts count as lost. After "instance" the keeper stops its attempts and exits.
"""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, List, Mapping, Optional, Sequence, TypedDict

    class CodeArchive(TypedDict):
        """Code archive of a start command."""

        sha256: str
        size: int

    class _Start(TypedDict):
        boot_id: str
        directory: str

    class Start(_Start, total=False):
        """Body of a start command. After the claim the journal keeps only the fields of ``_Start``."""

        trial_id: str
        attempt: int
        command: str
        cwd: str
        environment: dict[str, str | None]
        parameter: str
        log_cap: int
        lease: bool
        sought: bool
        code: CodeArchive | None

    class Started(TypedDict):
        """Start time and pid of a command."""

        at: float
        pid: int

    class Final(TypedDict):
        """End of an attempt."""

        reason: str | None
        code: int | None
        signal: int | None
        n: int
        at: float
        message: str | None

    ReportedAttempt = TypedDict(
        "ReportedAttempt",
        {
            "from": int,
            "events": List[int],
            "started": Optional[Started],
            "note": Optional[str],
            "final": Optional[Final],
        },
    )

    class GpuReading(TypedDict):
        """State of a machine's GPUs, or the error ``trouble`` if the GPUs cannot be read."""

        trouble: str | None
        gpus: list[dict[str, Any]]

    class Capacity(TypedDict):
        """Resources of a machine that processes may use."""

        cpus: float
        memory: int
        disk: int

    class HostCapacity(Capacity):
        """Resources of a keeper's machine, and the keeper's version."""

        version: str

    class _ReportHeader(TypedDict):
        instance: str
        k_epoch: int
        sync_no: int
        boot_id: str
        db_id_seen: str | None
        m_epoch_seen: int
        acked_cmd: int
        seen_cmd: int
        all: bool
        wait: bool
        status: str | None
        attempts: dict[str, ReportedAttempt]

    class ReportHeader(_ReportHeader, total=False):
        """First line of a request."""

        gpu: GpuReading
        host: HostCapacity

    class Answer(TypedDict):
        """Answer of the server, with all fields."""

        db_id: str
        m_epoch: int
        instance: str
        all: bool
        acks: dict[str, int]
        rewind: dict[str, int]
        done: list[str]
        kill: list[str]
        cmds: list[tuple[int, str, str, Any]]
        leave: bool
        gpu: bool
        reads: list[tuple[int, str, str, str, int, bool, int | None]]
        lease_s: float | None


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
    """Error: a body does not follow this protocol."""


def encode_request(header: Mapping[str, Any], payloads: Sequence[bytes]) -> bytes:
    """Return a request's body: the header line, then the payloads in the order of the header's events."""
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


def decode_answer(body: bytes) -> Answer:
    """Return the parsed answer, with defaults for missing fields. Raises WireError."""
    try:
        answer: Any = json.loads(body)
        if not isinstance(answer["db_id"], str) or not isinstance(answer["m_epoch"], int):
            raise WireError("db_id or m_epoch of the answer has the wrong type")
        answer = {**_EMPTY, **answer}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise WireError(f"bad answer: {error}") from error
    whole: Answer = answer
    return whole


def read_piece(kind: bytes, content: bytes) -> bytes:
    """Return a piece of a read's stream."""
    return b"".join((kind, len(content).to_bytes(4, "big"), content))


def read_end(*, error: str | None = None, sentence: str = "", complete: bool = True) -> bytes:
    """Return the last piece of a read's stream."""
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
