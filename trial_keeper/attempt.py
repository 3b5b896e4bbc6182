"""What the keeper core holds of one attempt."""

from __future__ import annotations

from trial_keeper import wire
from trial_keeper.claim import Claim, Exit
from trial_keeper.effects import Shim

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_ORPHANED = "its keeper had not heard from the server for too long"
_EVICTED = "its pod was told to end"
_RAN = "its claim file was removed, and its metrics show that the command had been started"


class Attempt:
    """One attempt: its commands, its claim, how far its metrics file has been sent, its end.

    ``position`` is the number of the frame at byte ``offset``, where the next read begins; ``sent`` the
    number of the next frame to send (larger while the reading catches up); ``marks`` are pairs of position
    and offset to come back to.
    """

    __slots__ = (
        "acked",
        "apart",
        "boot_id",
        "cause",
        "claimed",
        "directory",
        "doomed",
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
    )

    def __init__(self, job: str, seq: int, start: dict[str, Any], *, apart: bool = True) -> None:
        self.job = job
        self.apart = apart  # its claim is in the keeper's folder, not in the trial's as in earlier versions
        self.seq = seq  # of its last command
        self.start: dict[str, Any] | None = start  # None once claimed: never needed again
        self.directory: str = start["directory"]
        self.boot_id: str = start["boot_id"]
        self.stop: float | None = None  # the grace in seconds
        self.updates: dict[int, str] = {}
        self.watched = False
        self.doomed = False  # unknown to the server: forget it when it has ended
        self.orphaned = False  # stopped because the server was not heard of
        self.evicted = False  # stopped because its host is about to end
        self.claimed = False
        self.shim: Shim | None = None
        self.kills = 0  # tries to kill a shim that does not obey
        self.respawns = 0
        self.respawn_at = 0.0
        self.started: dict[str, Any] | None = None
        self.started_up: float | None = None  # on the clock that counts from the boot
        self.started_sent = False
        self.note: str | None = None
        self.exit: Exit | None = None
        self.sealing = False
        self.verdict: str | None = None  # the reason of its end, unless ``exit`` decides
        self.cause: str | None = None  # one sentence about it
        self.sweeps = 0
        self.empty_sweeps = 0
        self.tally_offset = 0
        self.tally_position = 0
        self.final: dict[str, Any] | None = None
        self.final_sent = False
        self.acked = 0
        self.unsure = False  # how many the present server has
        self.sent = 0
        self.offset = 0
        self.position = 0
        self.marks: list[tuple[int, int]] = []

    @property
    def live(self) -> bool:
        """It is not sealed."""
        return self.final is None

    @property
    def told(self) -> bool:
        """All its frames have been sent, so its end may be."""
        return self.final is not None and self.sent >= self.final["n"]

    def seek(self, position: int) -> None:
        """Send from this frame on."""
        self.sent = position
        if position >= self.position:
            return
        while self.marks and self.marks[-1][0] > position:
            self.marks.pop()
        self.position, self.offset = self.marks.pop() if self.marks else (0, 0)

    def advance(self, frames: int, end: int) -> None:
        """The reading has moved on by so many frames, to this byte."""
        if frames:
            self.marks.append((self.position, self.offset))
            self.position += frames
            self.offset = end

    def acknowledge(self, count: int) -> bool:
        """The server has committed so many frames. True: what is to be sent has changed.

        Less than before is an answer overtaken by another, unless the server is a new one.
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

    def seal(self, *, size: int, at: float, here: bool) -> dict[str, Any]:
        """The end as it is reported, now that the frames are counted.

        ``size``: bytes in the metrics file; ``here``: it ran in the present boot, so the disk lost nothing.
        """
        found = self.exit
        final: dict[str, Any] = {
            "reason": self.verdict,
            "code": None,
            "signal": None,
            "n": self.tally_position,
            "at": at,
            "message": self.cause,
        }
        stopped, why = self._stopping()
        if self.verdict == "never_started" and self.tally_position:
            ran = "exited" if self.stop is None else stopped
            final.update(reason=ran if here else wire.HOST_LOST, message=_RAN)
        elif why is not None and self.verdict == "never_started":
            final.update(reason=stopped, message=why)
        if self.verdict is not None:
            return final
        if found is None:
            final["reason"] = "exited" if self.stop is None else stopped
            return final
        if not here and size < found.size:
            final["reason"] = wire.HOST_LOST
            final["message"] = "the host was restarted and has lost a part of the metrics"
            return final
        remarks = [found.message] if found.message else []
        if found.survivors:
            remarks.append(f"processes that could not be killed: {', '.join(map(str, found.survivors))}")
        if found.signalled and self.stop is None:
            remarks.append("the shim was told to stop, but not by its keeper")
        reason = "exited"
        if found.signalled and self.stop is not None:
            reason = stopped
            remarks[:0] = filter(None, [why])
        if found.lapsed:
            reason = wire.LEASE
        final.update(
            reason=reason,
            code=found.code,
            signal=found.signal,
            at=found.at,
            message="; ".join(remarks) or None,
        )
        return final

    def instant(self, up: float, at: float, *, here: bool) -> float:
        """Return this moment on the clock of the attempt's start.

        ``up``: seconds since the boot; ``at``: the host's clock, which may have been set since the start.
        """
        if self.started is None:
            return at
        began: float = self.started["at"]
        return began + up - self.started_up if here and self.started_up is not None else max(at, began)

    def _stopping(self) -> tuple[str, str | None]:
        """The reason of its end if a stop brings that about, and why it was stopped unless that is known."""
        if self.evicted:
            return wire.HOST_LOST, _EVICTED
        if self.orphaned:
            return wire.LEASE, _ORPHANED
        return "stopped", None

    def agrees(self, claim: Claim | None) -> bool:
        """Whether this is what the claim file can say, by all that was known of the attempt before."""
        if claim is None or claim.damaged or claim.boot_id != self.boot_id:
            return False
        return self.shim is None or (claim.pid, claim.start_time) == self.shim

    def take(self, claim: Claim) -> bool:
        """The claim is known: from now on its process is the attempt's, and the command is not needed.

        True: that, or when the command was started, is news.
        """
        news = self.shim is None and claim.pid is not None
        self.claimed = True
        self.start = None
        if claim.pid is not None:
            self.shim = (claim.pid, claim.start_time)
        if claim.started is not None and self.started is None:
            self.started = {"at": claim.started[1], "pid": claim.started[0]}
            self.started_up = claim.started_up
            self.note = None  # what was in the way of its start
            news = True
        self.exit = claim.exit
        return news
