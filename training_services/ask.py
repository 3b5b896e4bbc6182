"""Platform ``ask``: starts nothing. Programs ask for trials, run them, and report how they have ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import timedelta
from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, PlainValidator
from pydantic.alias_generators import to_camel

from training_services.base import (
    Capabilities,
    ExperimentContext,
    FileListing,
    JobEnded,
    JobEvent,
    JobLost,
    JobPlaced,
    JobWaiting,
    KeeperAcknowledged,
    KeeperBound,
    KeeperEnrolled,
    KnownKeepers,
    Place,
    StopOrdered,
    TrainingService,
    TrialJobDetail,
    TrialJobSpec,
    UpdateOrdered,
)
from training_services.keepers.names import ASK
from training_services.outbox import Outbox
from training_services.platform import PlatformConfig
from training_services.tools import ServiceTools
from training_services.units import parse_duration

__all__ = ["AskConfig", "AskService"]

_SHORTEST_LEASE = timedelta(seconds=1)


def _duration(value: Any) -> str | int:
    if parse_duration(value) < _SHORTEST_LEASE:
        raise ValueError(f"must be at least {_SHORTEST_LEASE.total_seconds():g} s, not {value!r}")
    found: str | int = value
    return found


class AskConfig(PlatformConfig):
    """Configuration of the platform: ``trainingService`` with ``platform: ask``.

    ``lease``: time after which a trial fails if its program has not been heard from.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, alias_generator=to_camel, populate_by_name=True
    )

    asked: ClassVar[bool] = True

    platform: Literal["ask"] = "ask"
    lease: Annotated[str | int, PlainValidator(_duration)] = "60s"


class AskService(TrainingService):
    """Training service whose jobs are given to the programs that ask for them.

    A request for jobs has a key, which its client has made up. The key is recorded in the place of each job
    that the request gets (``Place.boot_id``). So a client that got no answer asks again with the same key,
    also after the server's restart, and gets the same jobs.

    The core numbers commands per keeper, so all programs together count as one keeper.
    """

    capabilities = Capabilities(updates=False)

    def __init__(self, context: ExperimentContext, config: AskConfig, tools: ServiceTools) -> None:
        self._outbox = Outbox()
        self._lease = parse_duration(config.lease)
        self._wanted: dict[str, int] = {}  # key of a request -> number of jobs that it still waits for
        self._holds: dict[str, int] = {}  # key of a request -> number of open jobs that its program has
        self._callers: dict[str, int] = {}  # key of a request -> number of callers that wait for its jobs
        self._keys: dict[str, str] = {}  # open job -> key of the request that has got it
        self._got: dict[str, dict[str, TrialJobSpec]] = {}  # key of a request -> its open jobs
        self._committed: set[str] = set()  # jobs whose place is committed
        self._due: dict[str, float] = {}  # job -> end of its lease; the next one to end is the first
        self._timer: asyncio.TimerHandle | None = None
        self._seq = 0  # number of the last command

    # ---- life ---------------------------------------------------------------------------------------------

    async def open(self, known: KnownKeepers) -> None:
        self._seq = max([0, *(keeper.last_cmd for keeper in known.keepers)])
        if not known.keepers:
            self._outbox.put([KeeperEnrolled(keeper_id=ASK, token_sha256="")])
            self._outbox.put([KeeperBound(keeper_id=ASK, instance=ASK, boot_id=ASK)])
        elif self._seq:
            self._outbox.put([self._acknowledged()])  # else jobs that earlier versions have lost never end

    def adopted(self) -> None:
        """Give a whole lease to the jobs that programs had got before the server's restart."""
        self.renew(self._keys)

    async def close(self, *, detach: bool) -> Sequence[str]:
        if self._timer is not None:
            self._timer.cancel()
        self._outbox.close()
        return ()

    # ---- programs -----------------------------------------------------------------------------------------

    @property
    def last_command(self) -> int:
        """Return the number of the last command, which a job's end acknowledges."""
        return self._seq

    @property
    def wanted(self) -> int:
        """Return the number of jobs for which programs wait now."""
        return sum(self._wanted.values())

    @property
    def waiting_programs_hold(self) -> int:
        """Return the number of open jobs of the programs that wait for jobs now."""
        return sum(self._holds.values())

    def want(self, key: str, count: int, *, holds: int) -> None:
        """Ask for ``count`` jobs, including those that earlier requests with this key have got.

        ``holds``: number of open jobs that the program has. Each call is followed by one of ``unwant``.
        """
        self._callers[key] = self._callers.get(key, 0) + 1
        self._holds[key] = holds
        missing = count - len(self._got.get(key, ()))
        if missing > 0:
            self._wanted[key] = missing

    def unwant(self, key: str) -> None:
        """End one request for jobs. The jobs that it has got stay with its client."""
        self._callers[key] -= 1
        if not self._callers[key]:
            del self._callers[key], self._holds[key]
            self._wanted.pop(key, None)

    def granted(self, key: str) -> list[TrialJobSpec]:
        """Return the open jobs that the request with this key has got, and whose place is committed."""
        return [job for job in self._got.get(key, {}).values() if job.id in self._committed]

    def complete(self, key: str) -> bool:
        """Return whether the places of all jobs that this request has got are committed."""
        return len(self.granted(key)) == len(self._got.get(key, {}))

    def renew(self, job_ids: Iterable[str]) -> None:
        """Extend the leases of these jobs. Jobs that no program has are ignored."""
        loop = asyncio.get_running_loop()
        due = loop.time() + self._lease.total_seconds()
        for job_id in list(job_ids):
            if job_id in self._keys:
                self._due.pop(job_id, None)
                self._due[job_id] = due
        if self._timer is None and self._due:
            self._timer = loop.call_at(next(iter(self._due.values())), self._expire)

    def _expire(self) -> None:
        """Report the jobs whose lease has ended as lost, and wait for the end of the next lease."""
        loop = asyncio.get_running_loop()
        self._timer = None
        for job_id, due in list(self._due.items()):
            if due > loop.time():
                self._timer = loop.call_at(due, self._expire)
                return
            del self._due[job_id]
            reason = (
                "the program that had asked for it did not answer for "
                f"{self._lease.total_seconds():g} s (the lease)"
            )
            self._outbox.put([JobLost(job_id=job_id, reason=reason), self._acknowledged()])

    def _acknowledged(self) -> KeeperAcknowledged:
        """Return the fact that all commands are carried out: a program carries out none after its silence."""
        return KeeperAcknowledged(keeper_id=ASK, acked_cmd=self._seq)

    # ---- calls without I/O, which return the fact to commit -----------------------------------------------

    def submit_trial_job(self, job: TrialJobSpec) -> JobPlaced | JobWaiting | None:
        """Give the job to the oldest request. The core submits no more jobs than ``wanted``."""
        if job.id in self._keys:
            return None
        if job.place is not None:
            self._give(job, job.place.place.boot_id)
            self._committed.add(job.id)
            return None
        key = next(iter(self._wanted))
        self._wanted[key] -= 1
        if not self._wanted[key]:
            del self._wanted[key]
        self._give(job, key)
        self._seq += 1
        return JobPlaced(job_id=job.id, place=_place(key), cmd_seq=self._seq)

    def update_trial_job(self, job_id: str, index: int, parameter_text: str) -> UpdateOrdered | None:
        return None  # a job has one parameter set; see ``capabilities``

    def cancel_trial_job(
        self, job_id: str, *, grace: timedelta, save_within: timedelta | None = None
    ) -> StopOrdered | None:
        """Order the stop. The core records the job's end with it, and its program learns of it later."""
        if job_id not in self._keys:
            return None
        self._seq += 1
        return StopOrdered(job_id=job_id, cmd_seq=self._seq, grace=grace)

    def committed(self, facts: Sequence[JobEvent]) -> None:
        for fact in facts:
            if isinstance(fact, JobPlaced):
                self._committed.add(fact.job_id)
                self.renew([fact.job_id])
            elif isinstance(fact, JobEnded | JobLost):
                self._forget(fact.job_id)

    def _give(self, job: TrialJobSpec, key: str) -> None:
        self._keys[job.id] = key
        self._got.setdefault(key, {})[job.id] = job

    def _forget(self, job_id: str) -> None:
        self._due.pop(job_id, None)
        self._committed.discard(job_id)
        key = self._keys.pop(job_id, None)
        if key is not None:
            del self._got[key][job_id]
            if not self._got[key]:
                del self._got[key]

    # ---- questions ----------------------------------------------------------------------------------------

    async def list_trial_jobs(self) -> list[TrialJobDetail]:
        return [
            TrialJobDetail(job_id=job_id, place=_place(key), started=True, ended=False)
            for job_id, key in self._keys.items()
        ]

    async def events(self) -> AsyncIterator[Sequence[JobEvent]]:
        while (batch := await self._outbox.take()) is not None:
            yield batch

    async def read_log(
        self,
        job_id: str,
        name: str,
        *,
        follow: bool,
        tail: int | None = None,
        keeper_id: str | None = None,
    ) -> AsyncIterator[bytes]:
        async for chunk in self.read_file(job_id, name, keeper_id=keeper_id):
            yield chunk

    async def list_files(self, job_id: str, *, keeper_id: str | None = None) -> FileListing:
        raise FileNotFoundError(job_id)

    async def read_file(
        self, job_id: str, path: str, *, keeper_id: str | None = None
    ) -> AsyncIterator[bytes]:
        for chunk in _no_file(path):
            yield chunk


def _no_file(path: str) -> Sequence[bytes]:
    """Raise FileNotFoundError: a program keeps the output of its trials."""
    raise FileNotFoundError(path)


def _place(key: str) -> Place:
    """Return the place of the jobs that the request with this key gets."""
    return Place(keeper_id=ASK, instance=ASK, boot_id=key)
