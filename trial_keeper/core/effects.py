"""Effects that ``KeeperCore`` returns, and results that ``KeeperCore`` takes: plain values without I/O.

"Answered by ``looked``" means: the caller carries out the effect, then calls ``KeeperCore.looked``.
"""

from __future__ import annotations

import enum

from trial_keeper.attempt.claim import Claim
from trial_keeper.lean import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing import Tuple, Union

    from trial_keeper.core.records import Record
    from trial_keeper.wire import ReportHeader, Start

    Shim = Tuple[int, str]  # pid and start time of the shim, as in the claim
else:
    Shim = tuple


class Channel(enum.Enum):
    """Kinds of calls to the server. At most one call of each kind is in flight."""

    REPORT = "report"
    WAIT = "wait"


class Append(NamedTuple):
    """Write a journal record; answered by ``written`` or ``write_failed``, in the order of the records.

    ``flush`` True: make the record durable soon, then call ``flushed``. ``flush`` False: leave the record to
    the next flush.
    """

    number: int
    record: Record
    flush: bool


class Spawn(NamedTuple):
    """Fork a shim for the attempt. The claim ensures that only one shim starts the command.

    ``lease``: number of the lease that limits the attempt; None: the attempt needs no lease.
    """

    job: str
    start: Start
    lease: int | None = None


class Abort(NamedTuple):
    """Write a claim unless a claim exists, so that no shim can claim the attempt; answered by ``looked``."""

    job: str
    directory: str


class Fence(NamedTuple):
    """Write a claim unless a claim exists, so that no shim can claim the attempt; not answered."""

    job: str
    directory: str


class Look(NamedTuple):
    """Read the claim file; answered by ``looked``.

    ``shim``: the attempt's shim, if known. The look checks this shim even if the file is missing.
    """

    job: str
    directory: str
    shim: Shim | None = None


class Signal(NamedTuple):
    """Stop an attempt through its shim: write the grace beside the claim, then send SIGTERM to the shim.

    Only a failure is answered, by ``signal_failed``.
    """

    job: str
    directory: str
    shim: Shim
    grace: float


class Kill(NamedTuple):
    """Kill a shim that has not obeyed the stop of its attempt; answered by ``killed``."""

    job: str
    directory: str
    shim: Shim


class Sweep(NamedTuple):
    """Kill every process of the attempt; answered by ``swept``."""

    job: str
    directory: str


class Watch(NamedTuple):
    """Call ``grown`` when the metrics file grows, and ``notified`` when the shim has ended."""

    job: str
    directory: str
    shim: Shim


class Unwatch(NamedTuple):
    """Stop watching a sealed attempt."""

    job: str


class Read(NamedTuple):
    """Read frames from the metrics file; answered by ``frames_read``.

    Skip ``skip`` frames, then read at most ``frames`` frames with at most ``size`` bytes in total. ``first``:
    read at least one frame, even if this frame is larger than ``size``.
    """

    job: str
    directory: str
    offset: int
    skip: int
    frames: int
    size: int
    first: bool


class Count(NamedTuple):
    """Count the frames in one bounded piece of the file, from ``offset`` on; answered by ``counted``."""

    job: str
    directory: str
    offset: int


class Update(NamedTuple):
    """Write ``parameter_<number>.cfg``; only a failure is answered, by ``update_failed``."""

    job: str
    directory: str
    number: int
    parameter: str


class Send(NamedTuple):
    """Call the server; answered by ``answered`` or ``failed``."""

    channel: Channel
    header: ReportHeader
    payloads: list[bytes]


class Serve(NamedTuple):
    """Stream a file or a listing to the server (a read of ``trial_keeper.wire``); may occur repeatedly."""

    number: int
    kind: str
    directory: str
    name: str
    offset: int
    follow: bool
    tail: int | None = None


class Extend(NamedTuple):
    """Move the end of lease ``number`` from ``before`` to ``until``; answered by ``extended``."""

    number: int
    until: float
    before: float


class Survey(NamedTuple):
    """Start or stop reading the machine's GPUs; ``gpus_read`` is called after each change."""

    on: bool


class Say(NamedTuple):
    """Write one sentence to the keeper's log."""

    sentence: str


class Leave(NamedTuple):
    """Exit the keeper: none of its attempts runs.

    ``clear``: first kill all other processes of the experiment, because no other keeper kills them.
    """

    reason: str
    clear: bool = False


if TYPE_CHECKING:
    Effect = Union[
        Append,
        Spawn,
        Abort,
        Fence,
        Look,
        Signal,
        Kill,
        Sweep,
        Watch,
        Unwatch,
        Read,
        Count,
        Update,
        Send,
        Serve,
        Extend,
        Survey,
        Say,
        Leave,
    ]
else:
    Effect = tuple


class Seen(NamedTuple):
    """Content of a claim file at one look. ``alive``: the attempt's shim runs. ``at``: unix seconds."""

    claim: Claim | None
    alive: bool
    at: float


class Chunk(NamedTuple):
    """Frames of a ``Read``.

    ``end``: offset after the last frame. ``bad``: the bytes at ``end`` are not a frame header. ``more``:
    complete frames may follow.
    """

    payloads: list[bytes]
    skipped: int
    end: int
    bad: bool
    more: bool


class Tally(NamedTuple):
    """Result of one ``Count``.

    ``frames``, ``end``, ``bad`` and ``more`` as in ``Chunk``, with ``frames`` as a number. ``size``: bytes in
    the file. ``at``: unix seconds. ``printed``: there are no frames, but NNI's SDK has printed results to
    standard output.
    """

    frames: int
    end: int
    bad: bool
    more: bool
    size: int
    at: float
    printed: bool = False
