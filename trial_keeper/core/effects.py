"""Effects that ``KeeperCore`` asks for, and results that it takes: plain values without I/O."""

from __future__ import annotations

import enum

from trial_keeper.attempt.claim import Claim
from trial_keeper.lean import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing import Tuple, Union

    from trial_keeper.core.records import Record
    from trial_keeper.wire import ReportHeader, Start

    Shim = Tuple[int, str]  # pid and start time, as in the claim
else:
    Shim = tuple


class Channel(enum.Enum):
    """The two calls that may be in flight."""

    REPORT = "report"
    WAIT = "wait"


class Append(NamedTuple):
    """Write a journal record; answered, in order, by ``written`` or ``write_failed``.

    ``flush``: make the record durable soon and call ``flushed``; else it becomes durable with the next flush.
    """

    number: int
    record: Record
    flush: bool


class Spawn(NamedTuple):
    """Fork a shim for the attempt. The claim ensures that only one shim starts the command.

    ``lease``: number of the lease that the attempt may run under; None: it needs no lease.
    """

    job: str
    start: Start
    lease: int | None = None


class Abort(NamedTuple):
    """Take the claim so that no shim can; answered by ``looked`` either way."""

    job: str
    directory: str


class Fence(NamedTuple):
    """Write a claim if there is none, so that no shim can claim the attempt; not answered."""

    job: str
    directory: str


class Look(NamedTuple):
    """Read the claim file; answered by ``looked``.

    ``shim``: the attempt's shim, if known, to check whether it runs even without the file.
    """

    job: str
    directory: str
    shim: Shim | None = None


class Signal(NamedTuple):
    """Have the shim stop the attempt: write the grace beside the claim, then send SIGTERM to the shim.

    Only a failure is answered, by ``signal_failed``.
    """

    job: str
    directory: str
    shim: Shim
    grace: float


class Kill(NamedTuple):
    """Kill the shim of an attempt that has not obeyed its stop; answered by ``killed``."""

    job: str
    directory: str
    shim: Shim


class Sweep(NamedTuple):
    """Kill every process that was started for the attempt; answered by ``swept``."""

    job: str
    directory: str


class Watch(NamedTuple):
    """Call ``grown`` when the metrics file grows, and ``notified`` when the shim has ended."""

    job: str
    directory: str
    shim: Shim


class Unwatch(NamedTuple):
    """Stop watching an attempt, which is sealed."""

    job: str


class Read(NamedTuple):
    """Read frames from the metrics file; answered by ``frames_read``.

    Skip ``skip`` frames, then read at most ``frames`` frames of ``size`` bytes in all. ``first``: read at
    least one frame, however large.
    """

    job: str
    directory: str
    offset: int
    skip: int
    frames: int
    size: int
    first: bool


class Count(NamedTuple):
    """Count the frames from ``offset`` on, a bounded piece at a time; answered by ``counted``."""

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
    """Make a call; answered by ``answered`` or ``failed``."""

    channel: Channel
    header: ReportHeader
    payloads: list[bytes]


class Serve(NamedTuple):
    """Stream a file or a listing to the server (a read of ``trial_keeper.wire``); may be repeated."""

    number: int
    kind: str
    directory: str
    name: str
    offset: int
    follow: bool
    tail: int | None = None


class Extend(NamedTuple):
    """Move the end of the lease of this number from ``before`` to ``until``; answered by ``extended``."""

    number: int
    until: float
    before: float


class Survey(NamedTuple):
    """Start or stop reading the machine's GPUs; each change is reported by ``gpus_read``."""

    on: bool


class Say(NamedTuple):
    """One sentence for the keeper's log."""

    sentence: str


class Leave(NamedTuple):
    """Exit: no attempt that this keeper knows runs.

    ``clear``: first kill all other processes of the experiment, because nobody else will.
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
    """Content of a claim file at one look. ``alive``: the attempt's shim runs; ``at``: unix seconds."""

    claim: Claim | None
    alive: bool
    at: float


class Chunk(NamedTuple):
    """Frames of a ``Read``. ``end``: offset after the last frame; ``more``: complete frames may follow."""

    payloads: list[bytes]
    skipped: int
    end: int
    bad: bool
    more: bool


class Tally(NamedTuple):
    """One piece of a ``Count``. ``size``: bytes in the file; ``at``: unix seconds."""

    frames: int
    end: int
    bad: bool
    more: bool
    size: int
    at: float
