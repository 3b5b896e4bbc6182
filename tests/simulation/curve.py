"""A trial's state as a hash chain, and the results that a trial's present attempt shows."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field

from nnimgr.rules import facts as f


def beginning(trial_id: str) -> int:
    """Return the state of a trial before its first step."""
    return zlib.crc32(trial_id.encode())


def link(state: int, step: int) -> int:
    """Return the state after this step, which depends on all steps before."""
    return zlib.crc32(b"%d %d" % (state, step))


def shown(state: int, step: int) -> float:
    """Return the positive value that a report after this step shows: it names the step and the state."""
    return step + 1 + state % 10**6 / 10**6


@dataclass(frozen=True, slots=True)
class Mark:
    """Recorded checkpoint of a trial, with its state.

    ``position``, ``reports``, ``step``: progress of the trial when it was saved. ``value``: its last
    intermediate result then, or None.
    """

    trial_id: str
    state: int
    attempt: int
    number: int
    keeper_id: str
    instance: str
    position: int
    reports: int
    step: int
    value: float | None


@dataclass(slots=True)
class Curve:
    """Recorded frames of a trial's present attempt, after those of earlier attempts that led to its origin.

    ``step``: number of the trial's next step. ``marks``: the checkpoints on this branch, oldest first.
    ``coming``: where the trial's next leg begins.
    """

    frames: list[f.MetricReported | None] = field(default_factory=list)  # None: a frame that is no metric
    reports: int = 0  # number of intermediate results
    step: int = 0
    latest: float | None = None  # the last intermediate result
    marks: list[Mark] = field(default_factory=list)
    origin: Mark | None = None
    coming: Mark | None = None

    @property
    def final(self) -> bool:
        return any(frame is not None and frame.type == "FINAL" for frame in self.frames)

    def take(self, fact: f.MetricReported | None, step: int | None) -> None:
        """Add a frame. ``step``: the step of the trial that has written it, or None."""
        self.frames.append(fact)
        self.reports += fact is not None and fact.type == "PERIODICAL"
        self.step += step is not None
        if fact is not None and fact.type == "PERIODICAL":
            self.latest = fact.value

    def begin_leg(self, mark: Mark, *, own: bool) -> None:
        """Continue with the state of a checkpoint. Results that the leg reports itself do not count."""
        if own:
            self.go_back(mark)
        else:
            self.frames = [
                frame
                if frame is not None and frame.type == "PERIODICAL" and frame.sequence < mark.reports
                else None
                for frame in self.frames
            ]
            self.origin, self.reports, self.step = mark, mark.reports, mark.step
            self.latest = mark.value
        self.marks, self.coming = [mark] if own else [], None

    def restart_leg(self, frames: int) -> None:
        """Begin the present leg again, from another trial's checkpoint, after this number of frames."""
        assert self.origin is not None
        del self.frames[frames:]
        self.reports, self.step, self.marks = self.origin.reports, self.origin.step, []
        self.latest = self.origin.value

    def go_back(self, origin: Mark | None) -> None:
        """Remove what came after a checkpoint, or everything."""
        self.origin = origin
        self.latest = None if origin is None else origin.value
        if origin is None:
            self.frames, self.reports, self.step, self.marks = [], 0, 0, []
            return
        del self.frames[origin.position :]
        self.reports, self.step = origin.reports, origin.step
        self.marks = [mark for mark in self.marks if mark.position <= origin.position]
