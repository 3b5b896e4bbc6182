"""Kubernetes as a training service: one Job of the cluster per trial job, or a pool of pods for all.

A pod is a host with its own keeper; it is created for its jobs and removed after them. The cluster needs no
add-on. The service watches the cluster for what a keeper cannot report: why a pod has not started, and that
it was evicted, deleted, or killed for lack of memory.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from training_services.base import (
    Capabilities,
    ExperimentContext,
    FileListing,
    JobEvent,
    JobPlaced,
    KeeperGone,
    KnownKeeper,
    KnownKeepers,
    Machine,
    ServiceError,
    TrialJobSpec,
)
from training_services.job_ids import job_of_member, trial_of_job
from training_services.keepers.host import HostGone, KeeperHost, attempt_folder
from training_services.keepers.hub import KeeperDesk
from training_services.keepers.link import Received
from training_services.keepers.placing import JobPlacing
from training_services.keepers.seat import KeeperSeat
from training_services.keepers.service import KeeperService
from training_services.kubernetes.config import KubernetesConfig
from training_services.kubernetes.gang_pods import GangPods
from training_services.kubernetes.insistence import Insistence, stops_before, stops_in
from training_services.kubernetes.names import job_of_pod
from training_services.kubernetes.pod import PodHost, pod_of
from training_services.kubernetes.pods import Acts, OwnPods, PodQueue, SharedPods
from training_services.kubernetes.site import Site
from training_services.logs import LOG_NAMES, FolderFiles, check_log_name
from training_services.placement.needs import Wants
from training_services.tools import ServiceTools

__all__ = ["KubernetesService"]

logger = logging.getLogger(__name__)

LISTING_S = 120.0  # limit for listing a trial's files through a keeper that may not answer
COPY_S = 120.0  # longest wait of a pod without progress in copying its checkpoints
LAST_FETCHES_S = 30.0  # limit in seconds for copying the logs when the experiment ends
PREPARE_AGAIN_S = 5.0


class KubernetesService(KeeperService):
    """Training service that runs the jobs of one experiment in pods."""

    capabilities = Capabilities(updates=True, keeps_files=True, checkpoints=True, gangs=True)
    _queue: PodQueue

    def __init__(self, context: ExperimentContext, config: KubernetesConfig, tools: ServiceTools) -> None:
        self._config = config
        self._site = Site(context, config, tools.doors, changed=self._seen)
        super().__init__(context, hub=tools.hub, ledger=tools.ledger, transfers=tools.transfers)
        # tasks that copy the logs of ended jobs to the server: pod -> ended job -> task
        self._fetches: dict[str, dict[str, asyncio.Task[None]]] = {}
        self._insistence = Insistence(self._lose_patience)
        self._leaving: set[str] = set()  # keepers whose pods are being removed
        self._parting: set[str] = set()  # keepers whose pods are removed when their checkpoints are copied

    def _make_queue(self) -> JobPlacing:
        acts = Acts(self._start, self._outbox.put, self._bring, self._send_away, self._wants_of)
        gang = self.context.gang
        if gang is not None and gang.nodes > 1:
            return GangPods(acts, self._start_gang, gang)
        if not self._config.reuse_mode:
            return OwnPods(acts)
        return SharedPods(acts, self.context.experiment_id, idle=self._config.idle)

    def _wants_of(self, job: TrialJobSpec | None) -> Wants:
        """Return what the job needs; None: what all jobs need."""
        wants = Wants.of(self.context)
        return wants if job is None else wants.of_job(job)

    # ---- life ---------------------------------------------------------------------------------------------

    async def open(self, known: KnownKeepers) -> None:
        self._site.open(known.db_id)
        await super().open(known)

    def _known_hosts(self, known: KnownKeepers) -> Iterable[KeeperHost]:
        return [
            self._host(each.keeper_id, job_of_pod(self.context.experiment_id, each.keeper_id), each)
            for each in known.keepers
        ]

    def _host(self, keeper_id: str, job_id: str | None, known: KnownKeeper | None = None) -> PodHost:
        return PodHost(
            keeper_id,
            context=self.context,
            config=self._config,
            site=self._site,
            job_id=None if self._config.reuse_mode else job_id,
            needs=lambda: self._queue.wants(keeper_id),
            image=lambda: self._queue.image(keeper_id),
            known=known is not None,
            spoken=known is not None and known.instance is not None,
        )

    async def close(self, *, detach: bool) -> Sequence[str]:
        self._insistence.close()
        fetches = [task for of_pod in self._fetches.values() for task in of_pod.values()]
        if not detach:
            await self._copy_last()
            if fetches:
                await asyncio.wait(fetches, timeout=LAST_FETCHES_S)
            self._leaving.update(self._seats)  # from now on, files are read from the local folder
            for seat in self._seats.values():
                seat.link.leaving = True
                seat.desk.flush()
                pod = pod_of(seat)
                pod.leaves_at_once, pod.obeys = True, seat.link.leave_told
        for task in fetches:
            task.cancel()
        left = list(await super().close(detach=detach))
        if not detach and self._known.db_id:
            try:
                await self._site.remove_credentials()
            except ServiceError as error:
                left.append(f"the keepers' Secret could not be removed from the cluster: {error}")
        await self._site.close()
        return left

    async def remove(self, *, only_look: bool = False) -> Sequence[str]:
        try:
            await self._site.remove(only_look=only_look)
        except ServiceError as error:
            return [f"the experiment's objects could not be removed from the cluster: {error}"]
        finally:
            await self._site.close()
        return ()

    def _parted(self, seat: KeeperSeat) -> None:
        self._outbox.put([KeeperGone(keeper_id=seat.id)])

    # ---- pods ---------------------------------------------------------------------------------------------

    def _bring(self, keeper_id: str, job_id: str | None) -> None:
        self._errands.spawn(keeper_id, self._enter(keeper_id, job_id))

    async def _enter(self, keeper_id: str, job_id: str | None) -> None:
        while True:
            try:
                seat = await self._join(self._host(keeper_id, job_id))
                break
            # Retry, because the user may be able to fix the error, such as trial code that cannot be packed.
            except (ServiceError, OSError) as error:
                logger.warning("experiment %s: a pod: %s", self.context.experiment_id, error)
                self._queue.explain(keeper_id, f"waits: {error}")
            await asyncio.sleep(PREPARE_AGAIN_S)
            if not self._queue.awaits(keeper_id):
                return
        self._begin(seat)
        self._vacated(seat)  # the job may have been canceled in the meantime

    def _seen(self, names: Collection[str]) -> None:
        """Report new reasons to the jobs that wait for these Jobs of the cluster.

        Without names, the state of the cluster itself has changed, and all waiting jobs are updated.
        """
        self._queue.tell(list(names) or list(self._seats))

    def _deliver(self, desk: KeeperDesk, received: Received) -> None:
        if (seat := self._seats.get(desk.link.keeper_id)) is not None:
            pod_of(seat).heard()
            super()._deliver(desk, received)

    def host_gone(self, seat: KeeperSeat, gone: HostGone) -> None:
        self._queue.remove(seat)
        super().host_gone(seat, gone)
        self._queue.gone(seat.id, gone)
        for fetch in self._fetches.get(seat.id, {}).values():
            fetch.cancel()
        self._send_away(seat)

    def _leave(self, job_id: str, seat: KeeperSeat) -> None:
        self._fetch(job_id, seat)
        super()._leave(job_id, seat)

    def _vacated(self, seat: KeeperSeat) -> None:
        if seat.id in self._parting and self._adopted:
            self._send_away(seat)
        elif self._adopted and not self._queue.expects(seat):
            # Copy the logs of the pod's trial, which may have ended before the server's restart.
            if (job_id := pod_of(seat).job_id) is not None:
                self._fetch(job_id, seat)
            self._send_away(seat)

    def _send_away(self, seat: KeeperSeat) -> None:
        """Stop using the pod, and remove it after checkpoints and logs have been copied to the server."""
        if seat.id in self._leaving or seat.id not in self._seats:
            return
        self._queue.remove(seat)
        self._keeping.leave(seat.id, COPY_S)
        if self._keeping.awaits(seat.id):
            self._parting.add(seat.id)
            return
        self._parting.discard(seat.id)
        self._leaving.add(seat.id)
        self._errands.spawn(seat.id, self._see_off(seat))

    async def _see_off(self, seat: KeeperSeat) -> None:
        await asyncio.gather(*self._fetches.get(seat.id, {}).values(), return_exceptions=True)
        note = await self._let_go(seat)
        if note is not None:
            logger.warning("experiment %s: %s", self.context.experiment_id, note)
        self._site.dismiss(seat.id)
        self._leaving.discard(seat.id)
        self._parted(seat)

    def committed(self, facts: Sequence[JobEvent]) -> None:
        super().committed(facts)
        for fact in facts:
            for job_id, within in stops_in(fact):
                self._insist(job_id, within)

    def _adopt(self, job: TrialJobSpec, placed: JobPlaced) -> None:
        super()._adopt(job, placed)
        self._insist_again(job)

    def _adopt_gang(self, job: TrialJobSpec, placed: JobPlaced) -> None:
        super()._adopt_gang(job, placed)
        self._insist_again(job)

    def _insist_again(self, job: TrialJobSpec) -> None:
        for job_id, within in stops_before(job):
            self._insist(job_id, within)

    def _insist(self, job_id: str, within: timedelta) -> None:
        if (seat := self._placed.get(job_id)) is not None:
            self._insistence.begin(job_id, seat, within)

    def _lose_patience(self, job_id: str, seat: KeeperSeat) -> None:
        """Delete the pod of a job, or of a member, whose keeper has not obeyed the order to stop."""
        jobs = seat.link.jobs
        if (jobs.is_open(job_id) or jobs.is_astray(job_id)) and seat.id not in self._errands:
            self._errands.spawn(seat.id, self._delete(job_id, seat))

    async def _delete(self, job_id: str, seat: KeeperSeat) -> None:
        try:
            await self._site.delete(seat.id)
        except ServiceError as error:
            logger.warning("experiment %s: %s", self.context.experiment_id, error)
            self._insistence.begin(job_id, seat)

    def machines(self) -> Sequence[Machine]:
        """Return a description of each pod, with the name of its node."""
        found = []
        for machine in super().machines():
            sight = self._site.sighting(machine.keeper_id)
            node = "" if sight is None or sight.node is None else f" on {sight.node}"
            found.append(replace(machine, name=f"{machine.name}{node}"))
        return found

    def notices(self) -> Mapping[str, str]:
        trouble = self._site.trouble
        doubts = {f"pod {seat.id}": doubt for seat in self._seats.values() if (doubt := pod_of(seat).doubt)}
        return {**super().notices(), **doubts, **({} if trouble is None else {"kubernetes": trouble})}

    # ---- files of trials ----------------------------------------------------------------------------------

    def _fetch(self, job_id: str, seat: KeeperSeat) -> None:
        """Copy the logs of an ended job to the experiment's folder, where they stay when the pod is gone."""
        pod = pod_of(seat)
        if job_id in self._fetches.get(seat.id, {}) or pod.over is not None or not pod.spoken:
            return
        under_way = self._fetches.setdefault(seat.id, {})
        task = asyncio.create_task(self._bring_logs(job_id, seat), name=f"{job_id}:logs")
        under_way[job_id] = task

        def over(_: object) -> None:
            del under_way[job_id]
            if not under_way and self._fetches.get(seat.id) is under_way:
                del self._fetches[seat.id]
                seat.desk.flush()

        task.add_done_callback(over)

    async def _bring_logs(self, job_id: str, seat: KeeperSeat) -> None:
        parts = _parts(job_id)
        folder = self.context.directory.joinpath(*parts)
        try:
            async with asyncio.timeout(LISTING_S):
                listing = await seat.desk.listing(parts)
            await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
            for file in listing.files:
                if file.path in LOG_NAMES:
                    await _copy(seat, parts, file.path, folder)
        except (TimeoutError, OSError, ServiceError) as error:
            experiment = self.context.experiment_id
            logger.warning("experiment %s: could not copy the logs of %s: %s", experiment, job_id, error)

    def needs_files(self, keeper_id: str) -> bool:
        return super().needs_files(keeper_id) or keeper_id in self._fetches

    async def _fetched(self, job_id: str) -> None:
        """Wait until the logs of the ended job have been copied to the server."""
        fetches = [jobs[job_id] for jobs in self._fetches.values() if job_id in jobs]
        await asyncio.gather(*map(asyncio.shield, fetches), return_exceptions=True)

    async def read_log(
        self,
        job_id: str,
        name: str,
        *,
        follow: bool,
        tail: int | None = None,
        keeper_id: str | None = None,
    ) -> AsyncIterator[bytes]:
        here = await asyncio.to_thread(self.context.directory.joinpath(*_parts(job_id), name).exists)
        if self._is_in_pod(job_id) or (not here and self._is_in_pod(job_id, keeper_id)):
            chunks = super().read_log(job_id, name, follow=follow, tail=tail, keeper_id=keeper_id)
        else:
            check_log_name(name)
            await self._fetched(job_id)
            chunks = FolderFiles(self.context.directory).read(_parts(job_id), name, tail=tail)
        async with aclosing(chunks):  # type: ignore[type-var]
            async for chunk in chunks:
                yield chunk

    async def read_file(
        self, job_id: str, path: str, *, keeper_id: str | None = None
    ) -> AsyncIterator[bytes]:
        if self._is_in_pod(job_id, keeper_id):
            chunks = super().read_file(job_id, path, keeper_id=keeper_id)
        else:
            await self._fetched(job_id)
            chunks = FolderFiles(self.context.directory).read(_parts(job_id), path)
        async with aclosing(chunks):  # type: ignore[type-var]
            async for chunk in chunks:
                yield chunk

    async def list_files(self, job_id: str, *, keeper_id: str | None = None) -> FileListing:
        if self._is_in_pod(job_id, keeper_id):
            return await super().list_files(job_id, keeper_id=keeper_id)
        await self._fetched(job_id)
        return await FolderFiles(self.context.directory).listing(_parts(job_id))

    def _is_in_pod(self, job_id: str, keeper_id: str | None = None) -> bool:
        """Return True if the job's files must be read from its pod, because they are not on the server
        yet.
        """
        seat = self._placed.get(job_id) or self._seats.get(keeper_id or "")
        return seat is not None and pod_of(seat).over is None and seat.id not in self._leaving


def _parts(job_id: str) -> tuple[str, ...]:
    return attempt_folder(*trial_of_job(job_id), job_of_member(job_id)[1])


async def _copy(seat: KeeperSeat, parts: Sequence[str], name: str, folder: Path) -> None:
    """Copy the trial's log ``name`` from the pod to the folder. Raises OSError, ServiceError."""
    fresh = folder / f".{name}.part"
    file = await asyncio.to_thread(fresh.open, "wb")
    try:  # if the copy breaks off, keep the part that has arrived
        async with aclosing(seat.desk.read(parts, name)) as chunks:
            async for chunk in chunks:
                await asyncio.to_thread(file.write, chunk)
    finally:
        file.close()
        os.replace(fresh, folder / name)
