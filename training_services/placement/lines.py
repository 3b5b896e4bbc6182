"""Waiting jobs of an experiment, in lines of jobs that need the same."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, count, islice
from typing import Generic, NamedTuple

from training_services.base import JobEvent, JobWaiting, TrialJobSpec
from training_services.placement.choice import Choice, S
from training_services.placement.needs import Waits, Wants

__all__ = ["FIRST", "MOST_LINES", "JobLines", "Line", "WaitingJob"]

FIRST = 8  # waiting jobs of a line to which every new reason is reported at once, which bounds the cost
MOST_LINES = 32  # lines with waiting jobs, which bounds the cost of an event

_Key = tuple[Wants, ...]


class Line(Generic[S]):
    """Line of jobs that need the same, in order of arrival, and the machines that have refused the first job.

    ``wants``: needs of machines' jobs, as in ``Seat.wants`` -> what the jobs of this line need there.
    """

    def __init__(self, number: int, wants: Mapping[Wants, Wants], choice: Choice[S]) -> None:
        self.number = number
        self.choice = choice
        # an OrderedDict returns its first entry quickly, also after many deletions
        self.jobs: OrderedDict[str, WaitingJob[S]] = OrderedDict()
        self._wants = wants

    def wants_at(self, seat: S) -> Wants:
        """Return what a job of this line needs on the seat (a machine that takes jobs)."""
        return seat.wants if seat.wants.own is None else self._wants[seat.wants]

    def news(self, waits: Waits, told: dict[str, str], *, everyone: bool) -> list[JobEvent]:
        """Return why jobs wait now, if that has changed: for the first few jobs, or for all.

        ``told``: last reason reported for each job, which is updated.
        """
        found: list[JobEvent] = []
        for position, job_id in enumerate(islice(self.jobs, None if everyone else FIRST)):
            reason = waits.told(first=position < FIRST)
            if reason != told[job_id]:
                told[job_id] = reason
                found.append(JobWaiting(job_id=job_id, reason=reason))
        return found

    @property
    def first(self) -> WaitingJob[S]:
        return next(iter(self.jobs.values()))


class WaitingJob(NamedTuple, Generic[S]):
    """Job with its line, and its position among all jobs of the experiment in order of arrival."""

    spec: TrialJobSpec
    line: Line[S]
    arrival: int


class JobLines(Generic[S]):
    """All waiting jobs of an experiment.

    Lines of which no job waits are kept for a while, because they know which machines are full. If too many
    lines have waiting jobs, later jobs form a single queue behind them, until a line is empty. ``forget`` is
    called with the number of a line that is dropped. ``numbers`` yields the numbers of new lines, which
    differ from those of all other queues of the experiment.
    """

    def __init__(
        self, load: Callable[[S], float], forget: Callable[[int], None], numbers: Iterator[int]
    ) -> None:
        self._load, self._forget, self._numbers = load, forget, numbers
        self._kinds: dict[Wants, None] = {}  # different needs of the seats
        # for jobs that all need the same: what they need on the seats; None: jobs need different things
        self._same: dict[Wants, Wants] | None = {}
        self._seats: dict[S, None] = {}
        self._lines: OrderedDict[_Key, Line[S]] = OrderedDict()
        self._keys: dict[int, _Key] = {}  # number of a line -> its key
        self._arrivals = count()
        self._first: list[tuple[int, Line[S]]] = []  # arrival of the first job of each line, with the line
        self._line_of: dict[str, Line[S]] = {}  # waiting job -> its line
        self._later: OrderedDict[str, tuple[TrialJobSpec, int]] = OrderedDict()

    def __contains__(self, job_id: object) -> bool:
        return job_id in self._line_of or job_id in self._later

    def __iter__(self) -> Iterator[str]:
        return chain(self._line_of, self._later)

    def __len__(self) -> int:
        return len(self._line_of) + len(self._later)

    # ---- seats --------------------------------------------------------------------------------------------

    def add(self, seat: S) -> Iterable[TrialJobSpec]:
        """Let all lines ask this seat for places.

        Return the waiting jobs, for the caller to add them again, if they now belong to other lines.
        """
        self._seats[seat] = None
        again: Iterable[TrialJobSpec] = ()
        if seat.wants not in self._kinds:
            jobs = [job for _, line in self._first for job in line.jobs.values()]
            again = [job.spec for job in sorted(jobs, key=lambda job: job.arrival)]
            again += [spec for spec, _ in self._later.values()]
            self._clear()
            self._kinds[seat.wants] = None
            differ = any(wants.own is not None for wants in self._kinds)
            self._same = None if differ else {wants: wants for wants in self._kinds}
        self.offer(seat)
        return again

    def remove(self, seat: S) -> None:
        """Ask this seat no more."""
        del self._seats[seat]
        for line in self._lines.values():
            line.choice.drop(seat)

    def offer(self, seat: S) -> None:
        """Let all lines ask this seat again, because its state has changed."""
        for line in self._lines.values():
            line.choice.offer(seat)

    # ---- jobs ---------------------------------------------------------------------------------------------

    def job(self, spec: TrialJobSpec) -> WaitingJob[S] | None:
        """Return a new job with its line; None if it has to wait behind all lines.

        Raises JobRejected if its needs are not valid.
        """
        wants, key = self._wants_of(spec)
        line = self._lines.get(key)
        if self._later or ((line is None or not line.jobs) and len(self._first) >= MOST_LINES):
            return None
        if line is None:
            line = self._open(key, wants)
        if len(self._lines) > 1:
            self._lines.move_to_end(key)
        return WaitingJob(spec, line, next(self._arrivals))

    def push(self, job: WaitingJob[S]) -> None:
        """Add a job to the end of its line."""
        line = job.line
        if not line.jobs:
            insort(self._first, (job.arrival, line), key=_arrival)
        line.jobs[job.spec.id] = job
        self._line_of[job.spec.id] = line

    def push_later(self, spec: TrialJobSpec) -> None:
        """Add a job behind all lines."""
        self._later[spec.id] = spec, next(self._arrivals)

    def pop(self, job_id: str) -> Line[S] | None:
        """Remove a job. Return its line if it was the first one there, else None."""
        if self._later.pop(job_id, None) is not None:
            return None
        line = self._line_of.pop(job_id)
        first = line.first
        del line.jobs[job_id]
        if first.spec.id != job_id:
            return None
        del self._first[bisect_left(self._first, first.arrival, key=_arrival)]
        if line.jobs:
            insort(self._first, (line.first.arrival, line), key=_arrival)
        return line

    def lines(self) -> Iterator[Line[S]]:
        """Return an iterator over the lines with waiting jobs, in order of arrival of their first jobs."""
        return (line for _, line in self._first)

    @property
    def several(self) -> bool:
        return len(self._first) > 1

    def advance(self) -> list[WaitingJob[S]]:
        """Move jobs from behind the lines into lines, as far as there is room. Return these jobs."""
        moved = []
        while self._later:
            spec, arrival = next(iter(self._later.values()))
            wants, key = self._wants_of(spec)
            line = self._lines.get(key)
            if (line is None or not line.jobs) and len(self._first) >= MOST_LINES:
                break
            del self._later[spec.id]
            job = WaitingJob(spec, line or self._open(key, wants), arrival)
            self.push(job)
            moved.append(job)
        return moved

    def _wants_of(self, spec: TrialJobSpec) -> tuple[Mapping[Wants, Wants], _Key]:
        """Return what a job needs on the seats, and the key of its line. Raises JobRejected."""
        if self._same is not None:
            return self._same, ()
        wants = {kind: kind.of_job(spec) for kind in self._kinds}
        return wants, tuple(wants.values())

    def _open(self, key: _Key, wants: Mapping[Wants, Wants]) -> Line[S]:
        idle = [line for line in self._lines.values() if not line.jobs]
        for line in idle[: max(0, len(idle) + 1 - MOST_LINES)]:
            self._drop(line)
        number = next(self._numbers)
        choice: Choice[S] = Choice(self._load)
        for seat in self._seats:
            choice.offer(seat)
        self._keys[number] = key
        line = self._lines[key] = Line(number, wants, choice)
        return line

    def _drop(self, line: Line[S]) -> None:
        del self._lines[self._keys.pop(line.number)]
        self._forget(line.number)

    def _clear(self) -> None:
        for line in list(self._lines.values()):
            self._drop(line)
        self._first.clear()
        self._line_of.clear()
        self._later.clear()


def _arrival(entry: tuple[int, Line[S]]) -> int:
    return entry[0]
