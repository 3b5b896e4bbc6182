"""What ``KeeperCore`` asks for, and what it is told: plain values between it and whoever carries them out."""

from __future__ import annotations

import enum

from trial_keeper.claim import Claim
from trial_keeper.lean import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing import Any, Dict, Tuple, Union

    Record = Dict[str, Any]
    Shim = Tuple[int, str]  # pid and start time, as in the claim
else:
    Record = dict
    Shim = tuple


class Channel(enum.Enum):
    """The two calls that may be in flight."""

    REPORT = "report"
    WAIT = "wait"


class Append(NamedTuple):
    """Write a journal record; answered, in order, by ``written`` or ``write_failed``.

    ``flush``: soon made durable, and then told by ``flushed``; else whenever the next one is.
    """

    number: int
    record: Record
    flush: bool


class Spawn(NamedTuple):
    """Fork a shim for the attempt. The claim sees to it that only one starts it.

    ``lease``: the number of the one that it may run under; None: it needs none.
    """

    job: str
    start: dict[str, Any]
    lease: int | None = None


class Abort(NamedTuple):
    """Take the claim so that no shim can; answered by ``looked`` either way."""

    job: str
    directory: str


class Fence(NamedTuple):
    """Put a claim where there is none, so that no shim takes it; not answered."""

    job: str
    directory: str


class Look(NamedTuple):
    """Read the claim file; answered by ``looked``.

    ``shim``: the attempt's, if it is known: whether it runs is then seen without the file.
    """

    job: str
    directory: str
    shim: Shim | None = None


class Signal(NamedTuple):
    """Have the shim stop the attempt: the grace beside the claim, then SIGTERM to exactly this process.

    Only a failure is answered, by ``signal_failed``.
    """

    job: str
    directory: str
    shim: Shim
    grace: float


class Kill(NamedTuple):
    """Kill the shim of an attempt, which has not obeyed its stop; answered by ``killed``."""

    job: str
    directory: str
    shim: Shim


class Sweep(NamedTuple):
    """Kill every process that was started for the attempt; answered by ``swept``."""

    job: str
    directory: str


class Watch(NamedTuple):
    """Tell ``grown`` when the metrics file grows, ``notified`` when the shim has gone."""

    job: str
    directory: str
    shim: Shim


class Unwatch(NamedTuple):
    """The attempt is sealed."""

    job: str


class Read(NamedTuple):
    """Cut frames from the metrics file; answered by ``frames_read``.

    ``skip`` frames first; then at most ``frames`` of them with ``size`` bytes, ``first``: but at least one.
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
    header: dict[str, Any]
    payloads: list[bytes]


class Serve(NamedTuple):
    """Stream a file or a listing to the server, a read of ``trial_keeper.wire``; it may come again."""

    number: int
    kind: str
    directory: str
    name: str
    offset: int
    follow: bool
    tail: int | None = None


class Extend(NamedTuple):
    """Have the lease of this number end at ``until`` (not at ``before``); answered by ``extended``."""

    number: int
    until: float
    before: float


class Survey(NamedTuple):
    """Read the machine's GPUs from now on, each change told by ``gpus_read``; or read them no more."""

    on: bool


class Say(NamedTuple):
    """One sentence for the keeper's log."""

    sentence: str


class Leave(NamedTuple):
    """Exit; nothing that this keeper knows runs.

    ``clear``: kill first whatever else runs of the experiment. Nobody else will.
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
    """The claim file at one look. ``alive``: the attempt's shim runs; ``at``: unix seconds."""

    claim: Claim | None
    alive: bool
    at: float


class Chunk(NamedTuple):
    """Frames of a ``Read``. ``end``: byte offset after the last one; ``more``: complete frames may follow."""

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
