"""What the keeper's core knows about one attempt, from its start command to its reported end."""

from __future__ import annotations

from trial_keeper.attempt.claim import Claim, Exit
from trial_keeper.core.effects import Shim

TYPE_CHECKING = False
if TYPE_CHECKING:
    from trial_keeper.wire import Final, Start, Started


class Attempt:
    """Attempt of a trial: its commands, its claim, the sent part of its metrics file, its end.

    The metrics file consists of frames, one per metric. ``position`` is the number of the frame at byte
    ``offset``, where the next read begins. ``sent`` is the number of the next frame to send; it exceeds
    ``position`` while frames that the server already has are skipped. ``marks`` are earlier pairs of position
    and offset, from which reading can resume.
    """

    __slots__ = (
        "acked",
        "apart",
        "baseless",
        "boot_id",
        "cause",
        "claimed",
        "directory",
        "doomed",
        "doubted_until",
        "empty_sweeps",
        "evicted",
        "exit",
        "final",
        "final_sent",
        "job",
        "kills",
        "marks",
        "note",
        "offset",
        "orphaned",
        "position",
        "respawn_at",
        "respawns",
        "save",
        "save_until",
        "sealing",
        "sent",
        "seq",
        "shim",
        "start",
        "started",
        "started_sent",
        "started_up",
        "stop",
        "sweeps",
        "tally_offset",
        "tally_position",
        "unsure",
        "updates",
        "verdict",
        "watched",
        "wish",
        "wish_until",
    )

    def __init__(self, job: str, seq: int, start: Start, *, apart: bool = True) -> None:
        self.job = job
        self.apart = apart  # True: the claim is in the keeper's folder; False: in the trial's (old versions)
        self.seq = seq  # number of the server's last command for the attempt
        self.start: Start | None = start  # None once a shim has claimed the attempt
        self.directory: str = start["directory"]
        self.boot_id: str = start["boot_id"]
        self.stop: float | None = None  # grace of the ordered stop in seconds; None: no stop is ordered
        # Seconds in which the trial may save its state before an ordered stop; None: it is not asked.
        self.save: float | None = None
        self.save_until: float | None = None  # time at which the wait for the save ends; None: no wait
        # Seconds in which the trial is to save its state while it runs on; None: nobody waits for that.
        self.wish: float | None = None
        self.wish_until: float | None = None  # time when a missing answer is reported; None: not asked yet
        self.baseless: str | None = None  # sentence: the checkpoint to continue from is missing
        self.updates: dict[int, str] = {}
        self.watched = False
        self.doomed = False  # True: the server does not know the attempt; forget the attempt at its end
        self.orphaned = False  # True: stopped because the server has not answered for too long
        self.evicted = False  # True: stopped because the host is shutting down
        # Time until which an end by SIGTERM is not reported, as the host may shut down; None: no such end
        self.doubted_until: float | None = None
        self.claimed = False
        self.shim: Shim | None = None
        self.kills = 0  # number of tries to kill a shim that ignores the stop
        self.respawns = 0
        self.respawn_at = 0.0
        self.started: Started | None = None
        self.started_up: float | None = None  # time of the start, in seconds since the boot
        self.started_sent = False
        self.note: str | None = None
        self.exit: Exit | None = None
        self.sealing = False
        self.verdict: str | None = None  # reason of the attempt's end; None: ``exit`` decides
        self.cause: str | None = None  # sentence that explains ``verdict``
        self.sweeps = 0
        self.empty_sweeps = 0
        self.tally_offset = 0
        self.tally_position = 0
        self.final: Final | None = None
        self.final_sent = False
        self.acked = 0
        self.unsure = False  # True: a new server may have committed fewer frames than ``acked``
        self.sent = 0
        self.offset = 0
        self.position = 0
        self.marks: list[tuple[int, int]] = []

    @property
    def live(self) -> bool:
        """Return whether the attempt is not sealed yet."""
        return self.final is None

    @property
    def told(self) -> bool:
        """Return whether the attempt's end may be sent: it is sealed, and all its metrics have been sent."""
        return self.final is not None and self.sent >= self.final["n"]

    def seek(self, position: int) -> None:
        """Make the frame with the number ``position`` the next one to send.

        If its place in the file was passed already, continue to read at an earlier known place.
        """
        self.sent = position
        if position >= self.position:
            return
        while self.marks and self.marks[-1][0] > position:
            self.marks.pop()
        self.position, self.offset = self.marks.pop() if self.marks else (0, 0)

    def advance(self, frames: int, end: int) -> None:
        """Record that ``frames`` more frames of the metrics file have been read, up to the byte ``end``."""
        if frames:
            self.marks.append((self.position, self.offset))
            self.position += frames
            self.offset = end

    def acknowledge(self, count: int) -> bool:
        """Record that the server has stored the first ``count`` frames.

        A count below the previous count is ignored, because the answer is outdated. A new server may have
        stored fewer frames, so its first count is always accepted. Return whether the next frame to send
        changes.
        """
        if count < self.acked and not self.unsure:
            return False
        moved = count > self.sent or self.unsure
        self.acked = count
        self.unsure = False
        if moved:
            self.seek(count)
        if count >= self.position:
            self.marks.clear()
        while len(self.marks) > 1 and self.marks[1][0] <= count:
            del self.marks[0]
        return moved

    def instant(self, up: float, at: float, *, here: bool) -> float:
        """Return the current time in unix seconds, measured from the recorded start of the attempt.

        ``up``: seconds since the boot. ``at``: the host's clock, which somebody may have set since the start.
        ``here``: the attempt was started in the present boot.
        """
        if self.started is None:
            return at
        began: float = self.started["at"]
        return began + up - self.started_up if here and self.started_up is not None else max(at, began)

    def agrees(self, claim: Claim | None) -> bool:
        """Return whether the claim file was readable and names the attempt's boot and, if known, its shim."""
        if claim is None or claim.damaged or claim.boot_id != self.boot_id:
            return False
        return self.shim is None or (claim.pid, claim.start_time) == self.shim

    def take(self, claim: Claim) -> bool:
        """Copy the content of the claim file into this state, and drop the start command.

        Return whether the claim names a shim or a start that was not known before.
        """
        news = self.shim is None and claim.pid is not None
        self.claimed = True
        self.start = None
        if claim.pid is not None:
            self.shim = (claim.pid, claim.start_time)
        if claim.started is not None and self.started is None:
            self.started = {"at": claim.started[1], "pid": claim.started[0]}
            self.started_up = claim.started_up
            self.note = None  # the note explained why the start was delayed
            news = True
        if claim.note is not None:
            self.note = claim.note
        self.exit = claim.exit
        return news
