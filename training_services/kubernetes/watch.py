"""Watch of an experiment's Jobs and pods in the cluster. The objects are listed once and then watched.

After an error they are listed again. There are three streams: Jobs, pods and warnings. An event is processed
only for its own job, so its cost does not depend on the number of jobs. Events of different streams come in
any order; the names of objects connect them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType

from training_services.base import ServiceError, ServiceUnavailable
from training_services.kubernetes.client import (
    EVENTS,
    JOBS,
    PODS,
    WATCH_S,
    ApiError,
    Cluster,
    Object,
    Resource,
    WatchEvent,
)
from training_services.kubernetes.sighting import (
    JobSight,
    PodSight,
    Sighting,
    fold,
    pod_gone,
    read_job,
    read_note,
    read_pod,
)
from training_services.kubernetes.syntax import EXPERIMENT_LABEL

__all__ = ["JobWatch"]

logger = logging.getLogger(__name__)

FIRST_PAUSE_S = 0.5  # first pause in seconds after a failure; doubled after each further failure
LAST_PAUSE_S = 30.0
AT_ONCE = 200  # objects of a list that are read before other tasks run
TOO_OLD = 2  # consecutive expired lists that are repeated without a pause
KEPT_GONE = 1_000  # deleted jobs whose last state is remembered
KEPT_EARLY = 1_000  # warnings that are kept until the object they are about is seen
NOTE_S = 150.0  # a warning about a pod is over if it is not repeated; kubelet repeats it every two minutes


@dataclass(slots=True)
class _Known:
    """Everything that is known about one Job. ``pods``: uid -> state of the pod, in the order of creation."""

    job: JobSight | None = None
    pods: dict[str, PodSight] = field(default_factory=dict)
    alive: set[str] = field(default_factory=set)  # uids of pods that are in the cluster
    job_note: str | None = None
    pod_note: str | None = None
    forgetting: asyncio.TimerHandle | None = None  # of ``pod_note``
    sighting: Sighting | None = None

    @property
    def gone(self) -> bool:
        return self.job is None and not self.alive


class JobWatch:
    """Watch of the Jobs and pods in the cluster that have the experiment's label and ``labels``.

    ``changed`` is called on the event loop with the names of all Jobs whose state has changed. It is called
    without names when the cluster stops or starts to answer (``trouble``), or when all Jobs and pods are
    listed for the first time (``known``).
    """

    def __init__(
        self,
        cluster: Cluster,
        namespace: str,
        experiment_id: str,
        changed: Callable[[Collection[str]], None],
        *,
        labels: Mapping[str, str] = MappingProxyType({}),
        watch_s: int = WATCH_S,
        first_pause_s: float = FIRST_PAUSE_S,
    ) -> None:
        self._cluster = cluster
        self._changed = changed
        self._jobs: dict[str, _Known] = {}
        # names of deleted Jobs whose last state is still remembered, the oldest first
        self._gone: OrderedDict[str, None] = OrderedDict()
        self._pod_jobs: dict[str, str] = {}  # pod name -> Job name, for pods in the cluster
        # (kind, name) of a Job or pod that was not seen yet -> warning about it
        self._early: OrderedDict[tuple[str, str], str] = OrderedDict()
        chosen = {EXPERIMENT_LABEL: experiment_id, **labels}
        label = ",".join(f"{name}={value}" for name, value in chosen.items())
        self._streams = (
            _JobStream(self, JOBS, cluster, namespace, watch_s, first_pause_s, labels=label),
            _PodStream(self, PODS, cluster, namespace, watch_s, first_pause_s, labels=label),
            _NoteStream(self, EVENTS, cluster, namespace, watch_s, first_pause_s, fields="type=Warning"),
        )
        self._tasks: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        """Start to watch. Return when all Jobs and pods are listed, or when the first attempt has failed."""
        self._tasks = [asyncio.create_task(stream.run()) for stream in self._streams]
        await asyncio.gather(*(stream.tried.wait() for stream in self._streams[:2]))

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        for known in self._jobs.values():
            if known.forgetting is not None:
                known.forgetting.cancel()

    @property
    def known(self) -> bool:
        """True after all Jobs and pods were listed once.

        From then on, a Job or pod that was not seen does not exist.
        """
        return all(stream.listed for stream in self._streams[:2])

    @property
    def trouble(self) -> str | None:
        """Sentence that says why the cluster does not answer, and since when; None if it answers."""
        return next((stream.trouble for stream in self._streams[:2] if stream.trouble is not None), None)

    def sighting(self, job_name: str) -> Sighting | None:
        """Return the last known state of the Job; None if it was never seen or was deleted long ago."""
        known = self._jobs.get(job_name)
        return None if known is None else known.sighting

    def has_lost_pod(self, job_name: str, uid: str) -> bool:
        """Return True if the Job has pods, and the one with this uid is not among them any more."""
        known = self._jobs.get(job_name)
        return self.known and known is not None and bool(known.alive) and uid not in known.alive

    def told(self) -> None:
        """Call ``changed`` without names, because the properties ``trouble`` or ``known`` have changed."""
        self._changed(())

    def saw(self, names: Collection[str | None]) -> None:
        """Compute the states of these Jobs again, and report those that have changed.

        An entry None in ``names`` is skipped.
        """
        different = []
        for name in (name for name in names if name is not None):
            known = self._jobs[name]
            before = known.sighting
            known.sighting = fold(
                known.job,
                tuple(known.pods.values()),
                job_note=known.job_note,
                pod_note=known.pod_note,
            )
            if known.gone:
                self._gone[name] = None
            else:
                self._gone.pop(name, None)
            if known.sighting != before:
                different.append(name)
        if different:
            self._changed(different)
        while len(self._gone) > KEPT_GONE:
            del self._jobs[self._gone.popitem(last=False)[0]]

    def job(self, sight: JobSight) -> str:
        """Record the state of a Job, and return its name.

        ``job_gone``, ``pod_gone`` and ``note`` return the Job's name as well, or None if no Job changes.
        """
        known = self._at(sight.name)
        known.job = sight
        known.job_note = self._early.pop(("Job", sight.name), None) or known.job_note
        return sight.name

    def job_gone(self, name: str) -> str | None:
        known = self._jobs.get(name)
        if known is None or known.job is None:
            return None
        known.job = None
        return name

    def pod(self, pod: Object) -> PodSight:
        """Record a pod of the cluster and return its state."""
        sight = read_pod(pod)
        job = sight.job
        if job is None:
            return sight
        known = self._at(job)
        before = known.pods.get(sight.uid)
        if before is not None:
            sight = read_pod(pod, before)
        known.pods[sight.uid] = sight
        known.alive.add(sight.uid)
        if (warning := self._early.pop(("Pod", sight.name), None)) is not None:
            self._warn(job, known, warning)
        self._pod_jobs[sight.name] = job
        return sight

    def pod_gone(self, job: str, uid: str) -> str | None:
        known = self._jobs.get(job)
        if known is None or uid not in known.alive:
            return None
        known.alive.remove(uid)
        known.pods[uid] = pod_gone(known.pods[uid])
        self._pod_jobs.pop(known.pods[uid].name, None)
        return job

    def note(self, event: Object) -> str | None:
        note = read_note(event)
        if note is None:
            return None
        name = note.name if note.kind == "Job" else self._pod_jobs.get(note.name)
        known = None if name is None else self._jobs.get(name)
        # The Job or pod may not have been seen yet, or may not belong to this experiment.
        if known is None:
            self._early[note.kind, note.name] = note.sentence
            while len(self._early) > KEPT_EARLY:
                self._early.popitem(last=False)
            return None
        if note.kind == "Job":
            known.job_note = note.sentence
        else:
            assert name is not None
            self._warn(name, known, note.sentence)
        return name

    def _warn(self, job: str, known: _Known, warning: str) -> None:
        """Record a warning about the pod of a Job, until it has not been repeated for a while."""
        known.pod_note = warning
        if known.forgetting is not None:
            known.forgetting.cancel()
        known.forgetting = asyncio.get_running_loop().call_later(NOTE_S, self._forget, job)

    def _forget(self, job: str) -> None:
        if (known := self._jobs.get(job)) is not None:
            known.pod_note = known.forgetting = None
            self.saw([job])

    def jobs_beside(self, names: Collection[str]) -> list[str]:
        """Return the names of the known Jobs that are not in ``names``."""
        return [name for name, known in self._jobs.items() if known.job is not None and name not in names]

    def pods_beside(self, uids: Collection[str]) -> list[tuple[str, str]]:
        """Return the Job and the uid of each known pod whose uid is not in ``uids``."""
        return [(name, uid) for name, known in self._jobs.items() for uid in known.alive if uid not in uids]

    def _at(self, name: str) -> _Known:
        known = self._jobs.get(name)
        if known is None:
            known = self._jobs[name] = _Known()
        return known


class _Stream:
    """Task that lists all objects of one kind, and then follows their changes without end."""

    def __init__(
        self,
        owner: JobWatch,
        resource: Resource,
        cluster: Cluster,
        namespace: str,
        watch_s: int,
        first_pause_s: float,
        *,
        labels: str | None = None,
        fields: str | None = None,
    ) -> None:
        self.listed = False
        self.trouble: str | None = None
        self.tried = asyncio.Event()  # set after the first attempt to list
        self._owner = owner
        self._resource = resource
        self._cluster = cluster
        self._namespace = namespace
        self._watch_s = watch_s
        self._first_pause_s = first_pause_s
        self._labels = labels
        self._fields = fields
        self._since: datetime | None = None
        self._failures = 0
        self._version: str | None = None  # version up to which everything was seen; None: list again
        self._too_old = 0  # consecutive lists that expired before any event came

    async def run(self) -> None:
        while True:
            try:
                if self._version is None:
                    await self._list()
                await self._watch(self._version or "")
                self._failures = self._too_old = 0
            except ApiError as error:
                self._version = None
                self._too_old += 1
                if error.status != 410 or self._too_old > TOO_OLD:  # a single expired list is normal
                    await self._failed(error)
            except ServiceUnavailable as error:
                await self._failed(error)
            except Exception as error:  # unexpected content from the cluster must not end the stream
                logger.exception("watching %s failed", self._resource.plural)
                self._version = None
                await self._failed(error)

    def one(self, event: WatchEvent) -> str | None:
        """Record the change of one object.

        Return the name of its Job, or None if it belongs to no known Job.
        """
        raise NotImplementedError

    def missing(self, items: Sequence[Object]) -> Iterator[str | None]:
        """Record that only the objects in ``items`` exist. Yield the names of the Jobs whose objects are
        gone.
        """
        raise NotImplementedError

    async def _list(self) -> None:
        listing = await self._cluster.list(
            self._resource, self._namespace, label_selector=self._labels, field_selector=self._fields
        )
        ordered = sorted(listing.items, key=lambda item: _meta(item, "creationTimestamp"))
        for start in range(0, len(ordered), AT_ONCE):
            names = {self.one(WatchEvent("ADDED", item)) for item in ordered[start : start + AT_ONCE]}
            self._owner.saw(names)
            await asyncio.sleep(0)  # let other tasks run
        self._owner.saw(set(self.missing(ordered)))
        self._version = listing.resource_version
        first, self.listed = not self.listed, True
        if not self._recovered() and first:
            self._owner.told()
        self.tried.set()

    async def _watch(self, version: str) -> None:
        batches = self._cluster.watch(
            self._resource,
            self._namespace,
            resource_version=version,
            label_selector=self._labels,
            field_selector=self._fields,
            timeout_s=self._watch_s,
        )
        async with contextlib.aclosing(batches):
            async for batch in batches:
                self._recovered()
                names: set[str | None] = set()
                try:
                    for event in batch:
                        self._version = event.object["metadata"]["resourceVersion"]
                        if event.type != "BOOKMARK":
                            names.add(self.one(event))
                        self._failures = self._too_old = 0
                finally:
                    self._owner.saw(names)

    async def _failed(self, error: Exception) -> None:
        """Record the error for which the cluster sends no events, and pause before the next attempt.

        The pause grows with each failure in a row.
        """
        pause_s = min(LAST_PAUSE_S, self._first_pause_s * 2**self._failures)
        self._failures += 1
        self.tried.set()
        if self._since is None:
            self._since = datetime.now(UTC)
            logger.warning("watching %s: %s", self._resource.plural, error)
        before = self.trouble
        sentence = str(error) if isinstance(error, ServiceError) else f"internal error of nnimgr: {error!r}"
        self.trouble = f"the cluster has not answered since {self._since:%Y-%m-%d %H:%M:%S} UTC: {sentence}"
        if self.trouble != before:
            self._owner.told()
        await asyncio.sleep(pause_s * random.uniform(0.75, 1.25))

    def _recovered(self) -> bool:
        """Record that the cluster answers. Return True if it did not answer before."""
        if self.trouble is None:
            return False
        self.trouble = self._since = None
        logger.info("watching %s again", self._resource.plural)
        self._owner.told()
        return True


class _JobStream(_Stream):
    def one(self, event: WatchEvent) -> str | None:
        sight = read_job(event.object)
        return self._owner.job_gone(sight.name) if event.type == "DELETED" else self._owner.job(sight)

    def missing(self, items: Sequence[Object]) -> Iterator[str | None]:
        gone = self._owner.jobs_beside({_meta(item, "name") for item in items})
        return map(self._owner.job_gone, gone)


class _PodStream(_Stream):
    def one(self, event: WatchEvent) -> str | None:
        sight = self._owner.pod(event.object)
        if event.type == "DELETED" and sight.job is not None:
            self._owner.pod_gone(sight.job, sight.uid)
        return sight.job

    def missing(self, items: Sequence[Object]) -> Iterator[str | None]:
        gone = self._owner.pods_beside({_meta(item, "uid") for item in items})
        return (self._owner.pod_gone(job, uid) for job, uid in gone)


class _NoteStream(_Stream):
    def one(self, event: WatchEvent) -> str | None:
        return None if event.type == "DELETED" else self._owner.note(event.object)

    def missing(self, items: Sequence[Object]) -> Iterator[str | None]:
        return iter(())  # warnings expire after an hour, and each warning is shown once


def _meta(item: Object, field: str) -> str:
    return str(item["metadata"].get(field))
