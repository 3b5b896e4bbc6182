"""Protocol between keeper and server: one idempotent call, named sync, which the keeper makes.

A keeper starts and watches the attempts of one experiment on one machine. A job id names an attempt. Each
metric of an attempt is one frame of its metrics file: a header, and a payload that the keeper does not parse.

``POST /keepers/v1/{experiment_id}/{keeper_id}/sync`` with ``Authorization: Bearer <token of this keeper>``.

Request body: one line of JSON, then the payloads of the reported frames, byte for byte as in the metrics
files, in the order of ``attempts`` and, within an attempt, of its ``events``::

    {"instance": str,            random name of the keeper's directory; a wiped disk gets a new one. In a pod
                                 it begins with the pod's uid and a dot
     "k_epoch": int,             number of times that the keeper was started
     "sync_no": int,             number of the call, from 1 in each k_epoch
     "boot_id": str,             id of the machine's present boot
     "db_id_seen": str | null, "m_epoch_seen": int,   the last server whose answer the keeper has applied
     "acked_cmd": int,           all commands up to this number are applied and on disk
     "seen_cmd": int,            all commands up to this number are applied, but may not be on disk yet
     "pruned": int,              what answers up to this "prune" have named is deleted; left out: 0
     "all": bool,                "attempts" lists every attempt of the keeper (first call of a k_epoch, first
                                 after the server's m_epoch has changed, first after an answer with "all");
                                 else only attempts with news
     "wait": bool,               the call has no news, and the server may delay its answer by up to WAIT_S
     "status": str | null,       errors of the keeper itself, such as a full disk, as one sentence
     "gpu": {"trouble": str | null,      why the GPUs of the machine cannot be read, as one sentence
             "gpus": [{"index": int,     index in nvidia-smi
                       "memory": int,    MiB in use beyond the memory of the listed processes
                       "processes": [[pid, job_id | null]]}]},   compute processes; null: not a trial's
                                 left out: unchanged or unknown (sent in each call with "all" if known,
                                 and after each change)
     "host": {"cpus": float,      CPUs that processes may use
              "memory": int,      MiB that processes may use
              "disk": int,        free MiB where the keeper works
              "version": str},    the keeper's version
                                 left out: unchanged (sent in each call with "all")
     "ending": {"stays": bool},  the machine is about to shut down and takes no more attempts; "stays": by the
                                 last answer that the keeper knows, it has to stay there ("stay" below)
                                 left out: the machine stays up
     "attempts": {job_id: {
         "from": int,            number of the first frame of "events" in the metrics file
         "events": [int],        sizes in bytes of the payloads that follow this line, one for each frame
         "started": null | {"at": float, "pid": int},     unix seconds of the host
         "note": null | str,     one sentence on the attempt (repeated until the attempt is done)
         "final": null | {"reason": EndReason value or "host_lost", "code": int | null, "signal": int | null,
                          "n": int, "at": float, "message": str | null,
                          "cause": Cause value}}}}    left out: nothing is known beyond reason and exit

A call has at most MAX_BYTES of payloads and MAX_EVENTS frames, but may always have one frame. ``final`` is
the end of the attempt, which is sent only with or after the last frame. ``n`` is the number of frames in the
complete metrics file.

Answer (200, JSON)::

    {"db_id": str,               id of the server's database
     "m_epoch": int,             number of times that the experiment's runner was started
     "instance": str,            instance of the keeper to which this answer is addressed
     "all": bool,                the server knows no earlier report of this keeper: report everything
     "acks": {job_id: int},      number of frames that the server has stored (of each attempt in the request,
                                 perhaps of others)
     "rewind": {job_id: int},    the server misses frames: send the frames from this number on again
     "done": [job_id],           the server has stored the end: forget the attempt (its files stay)
     "kill": [job_id],           the server does not know the attempt: stop and forget it
     "cmds": [[seq, "start", job_id, start],
              [seq, "stop", job_id, {"grace": seconds, "save": seconds}],      without "save": stop at once
              [seq, "save", job_id, {"within": seconds}],
              [seq, "update", job_id, {"index": int, "parameter": str}], [seq, "nop", job_id, {}]],
     "leave": bool,              no attempt is left and none will come: exit
     "stay": bool,               the server still has to copy files from this machine: if it is about to shut
                                 down, the keeper does not exit yet
     "gpu": bool,                the experiment uses GPUs: report their state
     "reads": [[read_no, "file" | "list" | "checkpoint", directory, name, offset, follow, tail]],   what the
                                 keeper has to upload, see below
     "prunes": [[directory, up_to, [number]]],   delete the checkpoints of the attempt in this folder up to
                                 number up_to, except those in the list
     "prune": int,               number of the last of these orders; 0: there are none
     "lease_s": float | null}    how long attempts may run, from the moment this request was sent
                                 (``trial_keeper.core.lease``); null: without limit

    start = {"trial_id": str, "attempt": int, "boot_id": str, "directory": str (relative to the experiment's),
             "command": str (for /bin/bash -c; for /bin/sh where there is no bash), "cwd": str,
             "environment": {str: str | null (unset)},
             "parameter": str (text of parameter.cfg), "log_cap": bytes,
             "lease": bool,        the attempt may run only under a lease; left out: no lease is needed
             "sought": bool,       the attempt was ordered earlier: only report its state; left out: start it
             "code": {"sha256": str, "size": bytes},   code archive; left out: the code is on the host
             "gang": {"processes": str,    run the command as so many worker processes: a number, "cpu", "gpu"
                                   or "auto" (``trial_keeper.crew``); left out: run it once
                      "job": job_id, "member": int, "hosts": [str], "key": str},   the attempt is this
                                   member of a job whose members are on hosts with these addresses. A member
                                   but the leader (0) joins it when it has got the update with the index 1
                                   (``trial_keeper.gang_line``). ``key``: secret that only the members have,
                                   never shown to anyone else; left out: the job has no members
                                   left out: run the command itself
             "preload": {"modules": [str], "target": str, "resident": bool},
                                   fork the attempt from a process that has imported these modules, and run
                                   the function or class FILE:NAME ``target`` in it, in place of
                                   ``command``; left out: run ``command``. ``resident``: run it in the
                                   process of an earlier attempt if possible (``trial_keeper.resident``);
                                   left out: fork a process for each attempt
             "origin": {"directory": str, "number": int, "step": int | null, "reports": int, "size": int,
                        "kept": {"job": job_id, "number": int, "digest": str, "path": str | null}}}
                                   checkpoint from which the attempt continues, in the folder of an earlier
                                   attempt on this host; left out: it starts from the beginning. ``size``:
                                   bytes of all files; left out: unknown. ``kept``: the server's copy, to be
                                   used if this host lacks the folder, or its files have another size; left
                                   out: there is no copy. ``digest``: SHA-256 of the copy's manifest;
                                   ``path``: the copy's folder on this host, if this is the server's machine

The command "save" asks a running trial to save its state, and the trial runs on. A trial that does not look
for such requests, or does not answer within this number of seconds, gets a note that says so.

In a stop, ``save`` means that the keeper asks the trial to save its state, and waits at most this number of
seconds before it stops the attempt. It does not wait for a trial that does not look for such requests.

If the checkpoint of ``origin`` is missing or has another size, and the server's copy is missing or damaged,
the command is not started, and the attempt ends with the reason CHECKPOINT_LOST.

The keeper fetches the server's copy of a checkpoint in two parts: ``GET
/keepers/v1/{experiment_id}/{keeper_id}/checkpoints/{job_id}/{number}/manifest`` answers with JSON:
{"files": [[name, bytes, sha256]]}, where an empty folder is [name with a slash at its end, 0]. Then ``GET
.../content`` answers with the contents of all files, in the order of the manifest, from byte N on with
``Range: bytes=N-``. The answer 404 means that the server has no usable copy.

With ``code`` the attempt gets its own copy in ``<directory>/code``, which is its working directory (``cwd``
is then ignored) and its NNI_CODE_DIR. The keeper fetches an archive that it lacks: ``GET
/keepers/v1/{experiment_id}/{keeper_id}/code/{sha256}`` answers with the archive, from byte N on with
``Range: bytes=N-``. Files of the copy that the attempt has not changed are removed after its end.

A read is an order to upload a file or a listing. Each answer repeats the read until the keeper's call with
the data arrives. This call is ``POST .../reads/{read_no}``, with a chunked body of pieces. A piece has one
byte for its kind, four bytes for the length (big-endian), then the content::

    d    a piece of the file ``name`` below ``directory`` (relative to the experiment's), from ``offset`` on;
         of a listing: lines of [path, bytes, unix seconds], one for each plain file below the directory;
         of a checkpoint in ``directory``: a line with the list of [name, bytes], as in a manifest, then the
         contents of its files in the order of the list, from byte ``offset`` of these contents on
    w    empty: there is no new data, but the keeper still works (at least every WORD_S seconds)
    e    the end, as JSON: {"error": null | "missing" | "name" | "failed", "sentence": str,
                            "complete": bool (for a listing: no file is left out),
                            "hashes": [sha256] (of a checkpoint: for each file, in order)}

With ``tail``, which may be left out or null, the upload begins at the last ``tail`` lines of the file. With
``follow``, the upload continues until the attempt has ended. If the server answers before the end (410),
nobody needs the data any more. Only plain files are read, and links are not followed.

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

Other answers: 401 wrong token, or the experiment is not open; 404 unknown call; 409 {"error", "reason": str};
413 too large; 503 not open yet. The reasons are: "database": the keeper has applied an answer from another
database; "fenced": the keeper has applied an answer from a later start of the experiment's runner; "turn":
manager.json is newer than the token of a new keeper; "pod": the keeper's pod replaces another one, whose
keeper the server still expects; "instance": another keeper has replaced this keeper, whose attempts count as
lost, or the experiment needs this keeper no longer.
After "instance", the keeper stops its attempts and exits. After all other answers, it retries after a pause.
"""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, List, Mapping, Optional, Sequence, TypedDict

    class CodeArchive(TypedDict):
        """Archive with the trials' code, as a start command names it: its hash and its size in bytes."""

        sha256: str
        size: int

    class Gang(TypedDict, total=False):
        """Worker processes of an attempt, and which member of a job it is (``trial_keeper.crew``)."""

        processes: str
        job: str
        member: int
        hosts: list[str]
        key: str

    class _Preload(TypedDict):
        modules: list[str]
        target: str

    class Preload(_Preload, total=False):
        """Modules that the attempt's interpreter has imported before, and what it runs: FILE:NAME."""

        resident: bool

    class KeptCopy(TypedDict):
        """Server's copy of a checkpoint. ``path``: its folder, on the server's own machine."""

        job: str
        number: int
        digest: str
        path: str | None

    class _Origin(TypedDict):
        directory: str
        number: int
        step: int | None
        reports: int

    class Origin(_Origin, total=False):
        """Checkpoint from which an attempt continues."""

        size: int
        kept: KeptCopy

    class _Start(TypedDict):
        boot_id: str
        directory: str

    class Start(_Start, total=False):
        """Body of a start command.

        Once a shim has claimed the attempt, the journal keeps only ``boot_id`` and ``directory``.
        """

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
        gang: Gang
        preload: Preload
        origin: Origin

    class Started(TypedDict):
        """Start time and pid of a command."""

        at: float
        pid: int

    class _Final(TypedDict):
        reason: str | None
        code: int | None
        signal: int | None
        n: int
        at: float
        message: str | None

    class Final(_Final, total=False):
        """How an attempt ended, as the keeper reports it.

        ``unreached``: the attempt is a member of a gang that could not reach its leader.
        """

        cause: str
        unreached: bool

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
        """Resources of a machine that trials may use: number of CPUs, memory and free disk space in MiB."""

        cpus: float
        memory: int
        disk: int

    class HostCapacity(Capacity):
        """Resources of a keeper's machine, and the keeper's version."""

        version: str

    class Ending(TypedDict):
        """State of a keeper whose machine is about to shut down: whether it stays until files are copied."""

        stays: bool

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
        """First line of a sync request, with the keeper's report."""

        pruned: int
        gpu: GpuReading
        host: HostCapacity
        ending: Ending

    class Answer(TypedDict):
        """Answer of the server to a sync request, with all its fields."""

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
        stay: bool
        gpu: bool
        reads: list[tuple[int, str, str, str, int, bool, int | None]]
        prunes: list[tuple[str, int, list[int]]]
        prune: int
        lease_s: float | None


PATH = "/keepers/v1/{experiment_id}/{keeper_id}/sync"
WAIT_S = 20.0
MAX_BYTES = 1 << 20
MAX_EVENTS = 5000
MAX_BODY = 8 << 20

HOST_LOST = "host_lost"
LEASE = "lease"
CHECKPOINT_LOST = "checkpoint_lost"

# causes of an attempt's end that only the keeper can know
OUT_OF_MEMORY = "out_of_memory"
PREEMPTED = "preempted"
INFRASTRUCTURE = "infrastructure"

FILE, LISTING, CHECKPOINT = "file", "list", "checkpoint"  # kinds of reads
DATA, WORD, END = b"d", b"w", b"e"  # kinds of pieces
MISSING, BAD_NAME, FAILED = "missing", "name", "failed"
WORD_S = 5.0
PIECE_HEAD = 5  # bytes


class WireError(ValueError):
    """Error: the body of a request or an answer does not follow this protocol."""


def needs_crew(gang: Gang) -> bool:
    """Return whether an attempt with this ``gang`` has a crew. One process that meets nobody needs none."""
    return "member" in gang or gang.get("processes") != "1"


def encode_request(header: Mapping[str, Any], payloads: Sequence[bytes]) -> bytes:
    """Return a request's body: the header line, then the payloads in the order of the header's events."""
    line = json.dumps(header, separators=(",", ":")).encode("ascii")
    return b"\n".join((line, b"".join(payloads)))


def decode_request(body: bytes) -> tuple[dict[str, Any], dict[str, list[bytes]]]:
    """Split the body of a sync request into its header and, by job id, the payloads of its frames.

    Raises WireError.
    """
    end = body.find(b"\n")
    if end < 0:
        raise WireError("the request's header line does not end")
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
        raise WireError(
            f"the request announces {at - end - 1} bytes of payloads, but has {len(body) - end - 1}"
        )
    return header, payloads


def decode_answer(body: bytes) -> Answer:
    """Return the answer to a sync request, parsed and with defaults for missing fields. Raises WireError."""
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
    """Return the bytes of one piece of an upload that the server ordered with a read."""
    return b"".join((kind, len(content).to_bytes(4, "big"), content))


def read_end(
    *, error: str | None = None, sentence: str = "", complete: bool = True, hashes: Sequence[str] = ()
) -> bytes:
    """Return the bytes of the last piece of an upload that the server ordered with a read."""
    end = {"error": error, "sentence": sentence, "complete": complete, "hashes": list(hashes)}
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
    "stay": False,
    "gpu": False,
    "reads": [],
    "prunes": [],
    "prune": 0,
    "lease_s": None,
}
