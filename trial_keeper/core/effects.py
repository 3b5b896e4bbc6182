"""Effects, which are the orders that ``KeeperCore`` returns, and results of effects, which it takes.

The caller carries out each effect. "Answered by ``looked``" means that it then calls ``KeeperCore.looked``
with the result.
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
    """Order to write a journal record.

    Answered by ``written`` or ``write_failed``, in the order of the records. ``flush`` True: the caller soon
    flushes the record to disk, then calls ``flushed``. ``flush`` False: the record waits for the next flush.
    """

    number: int
    record: Record
    flush: bool


class Spawn(NamedTuple):
    """Order to fork a shim for the attempt. The claim file ensures that only one shim starts the command.

    ``lease``: number of the lease that limits the attempt; None: the attempt needs no lease.
    """

    job: str
    start: Start
    lease: int | None = None


class Abort(NamedTuple):
    """Order to create the claim file if it is missing, so that no shim can start the attempt.

    Answered by ``looked``.
    """

    job: str
    directory: str


class Fence(NamedTuple):
    """Order to create the claim file if it is missing, so that no shim can start the attempt.

    The caller reports no result.
    """

    job: str
    directory: str


class Look(NamedTuple):
    """Order to read an attempt's claim file and to check whether its shim runs. Answered by ``looked``.

    ``shim``: the attempt's shim, if known. It is checked even if the claim file is missing.
    """

    job: str
    directory: str
    shim: Shim | None = None


class Signal(NamedTuple):
    """Order to stop an attempt: write the grace to a file, then send SIGTERM to the attempt's shim.

    Only a failure is answered, by ``signal_failed``.
    """

    job: str
    directory: str
    shim: Shim
    grace: float


class AskSave(NamedTuple):
    """Ask the attempt's trial to save its state, or see whether the trial has saved it.

    ``first``: write the request. ``stays``: the trial runs on after the save. Answered by ``save_seen``.
    """

    job: str
    directory: str
    first: bool
    stays: bool = False


class Kill(NamedTuple):
    """Order to kill the shim of an attempt, because it has not obeyed a stop. Answered by ``killed``."""

    job: str
    directory: str
    shim: Shim


class Sweep(NamedTuple):
    """Order to kill every process of the attempt. Answered by ``swept``."""

    job: str
    directory: str


class Watch(NamedTuple):
    """Order to call ``grown`` when the attempt's metrics file grows, and ``notified`` when its shim ends."""

    job: str
    directory: str
    shim: Shim


class Unwatch(NamedTuple):
    """Order to stop watching an attempt, because it is sealed: all its processes are gone.

    A checkpoint that they have not completed is deleted.
    """

    job: str
    directory: str


class Read(NamedTuple):
    """Order to read frames, one per metric, from the attempt's metrics file. Answered by ``frames_read``.

    The reader passes over ``skip`` frames, then reads at most ``frames`` frames with at most ``size`` bytes
    in total. ``first``: read at least one frame, even if this frame is larger than ``size``.
    """

    job: str
    directory: str
    offset: int
    skip: int
    frames: int
    size: int
    first: bool


class Count(NamedTuple):
    """Order to count the frames in one piece of an attempt's metrics file. Answered by ``counted``.

    The piece begins at byte ``offset`` and has a limited size.
    """

    job: str
    directory: str
    offset: int


class Update(NamedTuple):
    """Order to write a further parameter set for the trial.

    Only a failure is answered, by ``update_failed``.
    """

    job: str
    directory: str
    number: int
    parameter: str


class Send(NamedTuple):
    """Order to make a sync call to the server. Answered by ``answered`` or ``failed``."""

    channel: Channel
    header: ReportHeader
    payloads: list[bytes]


class Serve(NamedTuple):
    """Order to upload a file or a listing to the server, which has asked for it.

    ``trial_keeper.wire`` explains the fields. The same order may be returned repeatedly, but must be carried
    out once.
    """

    number: int
    kind: str
    directory: str
    name: str
    offset: int
    follow: bool
    tail: int | None = None


class Prune(NamedTuple):
    """Delete the checkpoints of an attempt up to number ``up_to``, except those in ``keep``.

    The last deletion of an answer of the server has its number, and is answered by ``pruned``; others have 0.
    """

    directory: str
    up_to: int
    keep: list[int]
    number: int = 0


class Extend(NamedTuple):
    """Order to write the new end ``until`` of lease ``number`` to its file. Answered by ``extended``.

    ``before``: the previous end of the lease.
    """

    number: int
    until: float
    before: float


class Survey(NamedTuple):
    """Order to begin or to end regular readings of the machine's GPUs.

    Each change is passed to ``gpus_read``.
    """

    on: bool


class Say(NamedTuple):
    """Order to write one sentence to the keeper's log."""

    sentence: str


class Leave(NamedTuple):
    """Order to exit the keeper, because none of its attempts runs any more.

    ``clear``: first kill all other processes of the experiment on this machine, because no later keeper does
    that.
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
        AskSave,
        Kill,
        Sweep,
        Watch,
        Unwatch,
        Read,
        Count,
        Update,
        Send,
        Serve,
        Prune,
        Extend,
        Survey,
        Say,
        Leave,
    ]
else:
    Effect = tuple


class Seen(NamedTuple):
    """Result of one ``Look``: the content of the claim file, and whether the attempt's shim runs (``alive``).

    ``at``: time of the look in unix seconds.
    """

    claim: Claim | None
    alive: bool
    at: float


class Chunk(NamedTuple):
    """Result of one ``Read``: the frames that were read from a metrics file.

    ``skipped``: number of frames passed over. ``end``: offset after the last frame. ``bad``: the bytes at
    ``end`` are not a frame header. ``more``: further complete frames may follow.
    """

    payloads: list[bytes]
    skipped: int
    end: int
    bad: bool
    more: bool


class Tally(NamedTuple):
    """Result of one ``Count``: the number of frames in a piece of a metrics file.

    ``end``: offset after the last frame. ``bad``: the bytes at ``end`` are not a frame header. ``more``:
    further complete frames may follow. ``size``: bytes in the file. ``at``: time of the count in unix
    seconds. ``printed``: the file is empty, but NNI's SDK has printed results to standard output.
    """

    frames: int
    end: int
    bad: bool
    more: bool
    size: int
    at: float
    printed: bool = False
