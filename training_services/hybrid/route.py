"""Which platform a waiting job asks next, when, and the sentences about that. No I/O, no clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from training_services.base import TrialJobSpec

__all__ = ["Route", "Spill", "WaitingJob"]


@dataclass(frozen=True, slots=True)
class Spill:
    """How jobs go on from platform to platform.

    ``after``: time for which they wait on each; ``order``: numbers of the items of ``trainingService`` in the
    order in which jobs ask them.
    """

    after: timedelta
    order: Sequence[int]


@dataclass(slots=True, eq=False)
class WaitingJob:
    """Job without a place. Platforms are named by their numbers in the order in which jobs ask them.

    ``since``: when it began to wait. ``asked``: number of platforms that it has asked. ``waits``: platforms
    in whose queues it is, with the reasons; the first that has a free place runs it. ``deserted``: platforms
    among these that have no machine now. ``has_room_made``: on one of them, jobs are being stopped for it.
    ``refusals``: platforms that can never run it, with the reasons. ``told``: the last sentence about all
    this that was reported.
    """

    spec: TrialJobSpec
    since: datetime
    asked: int = 0
    waits: dict[int, str] = field(default_factory=dict)
    deserted: frozenset[int] = frozenset()
    has_room_made: bool = False
    refusals: dict[int, str] = field(default_factory=dict)
    told: str = ""

    @property
    def is_bound(self) -> bool:
        """True if the job continues from a checkpoint that only one host has."""
        return self.spec.origin is not None and self.spec.kept is None


@dataclass(frozen=True, slots=True)
class Route:
    """Platforms in the order in which jobs ask them. ``names``: what they are called in sentences.

    ``after``: time for which a job waits on each platform before it asks the next one as well; None: it asks
    the next one at once.
    """

    names: Sequence[str]
    after: timedelta | None

    def next_at(self, job: WaitingJob) -> datetime | None:
        """Return when the job asks the next platform; None: there is none that it may ask.

        A platform that has refused the job, or has no machine, costs no time.
        """
        if job.is_bound or job.asked == len(self.names):
            return None
        waited = sum(each < job.asked for each in job.waits.keys() - job.deserted)
        return job.since if self.after is None else job.since + self.after * waited

    def sentence(self, job: WaitingJob) -> str:
        """Return why the job waits, and when it asks the next platform."""
        parts = [f"{self.names[each]} cannot run it: {why}" for each, why in job.refusals.items()]
        alone = len(job.waits) + len(parts) == 1
        parts += [why if alone else f"{self.names[each]}: {why}" for each, why in job.waits.items()]
        at = self.next_at(job)
        if at is not None and self.after is not None and not job.has_room_made:
            # A point in time stays true as long as the sentence is shown, so it need not be recorded again.
            parts.append(f"goes on to {self.names[job.asked]} at {at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC")
        return "; ".join(parts)

    def refusal(self, job: WaitingJob) -> str:
        """Return why no platform can ever run the job."""
        if len(job.refusals) == 1:
            return next(iter(job.refusals.values()))
        return "; ".join(f"{self.names[each]}: {why}" for each, why in job.refusals.items())

    def why_there(self, job: WaitingJob, platform: int, now: datetime) -> str | None:
        """Return why this platform runs the job; None if it is the first one that was asked."""
        parts = [f"{self.names[each]} cannot run it ({why})" for each, why in job.refusals.items()]
        before = [self.names[each] for each in job.waits if each < platform]
        later = [self.names[each] for each in job.waits if each > platform]
        if before:
            waited = max(0.0, (now - job.since).total_seconds())
            parts.append(f"{_listed(before)} had no free place for {_span(waited)}")
        elif later:
            parts.append(f"it had a free place before {_listed(later)}")
        return "; ".join(parts) or None


def _listed(names: Sequence[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


def _span(seconds: float) -> str:
    """Return a duration as text, such as "2 min 5 s"."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"
