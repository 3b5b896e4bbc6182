"""Pod as a host of an experiment: it runs one keeper, which runs trials."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from training_services import base
from training_services.addresses import Reach
from training_services.allocations.allocation import Allocation
from training_services.base import ExperimentContext, ServiceError, ServiceUnavailable, TrialJobSpec
from training_services.keepers.host import HostGone, start_order
from training_services.keepers.jobs import StartOrder
from training_services.keepers.seat import KeeperSeat
from training_services.kubernetes.config import KubernetesConfig
from training_services.kubernetes.names import PODS
from training_services.kubernetes.sighting import Cause, Over, Phase, Sighting, Sign
from training_services.kubernetes.site import ImpossibleJob, Site, succeeded
from training_services.placement.ledger import Host
from training_services.placement.needs import Wants

__all__ = ["PodHost", "pod_of"]

RETRY_S = 5.0  # seconds before the cluster is asked again after a failure
# A Job's start is noted in whole seconds, so its deadline may come up to this many seconds earlier.
ROUNDED_S = 1.0
LEAVE_S = 30.0  # longest wait for a pod's end after the order to exit
MUTE_S = 20.0  # time after which the output of a keeper is read that runs and has not called
# causes of a pod's end for which the error message quotes the last lines of the keeper's output
_MUTE = {Cause.COMPLETED, Cause.FAILED, Cause.NEVER_RAN}
# the same causes in the terms of the core; all others are losses of the infrastructure
_CAUSES = {
    Cause.OUT_OF_MEMORY: base.Cause.OUT_OF_MEMORY,
    Cause.DEADLINE: base.Cause.TIMEOUT,
    Cause.PREEMPTED: base.Cause.PREEMPTED,
}


class PodHost(Allocation):
    """Pod with a keeper of one experiment. The pod belongs to a Job with the keeper's name.

    ``job_id``: the only job, or member of a gang, that the pod runs; None: the pod runs many jobs.
    ``needs`` returns the resources for the pod, and ``image`` its image if that is another one than in the
    configuration.
    ``known``: an earlier server may have created the Job. ``instance``: the keeper that has called it before
    from there, so the Job must not be created again; None: none.
    """

    over: Over | None = None

    def __init__(
        self,
        keeper_id: str,
        *,
        context: ExperimentContext,
        config: KubernetesConfig,
        site: Site,
        job_id: str | None,
        needs: Callable[[], Wants],
        image: Callable[[], str | None],
        known: bool = False,
        instance: str | None = None,
    ) -> None:
        self.keeper_id = keeper_id
        self.host = Host(id=f"kubernetes/{keeper_id}", name=f"pod {keeper_id}")
        self.wants = Wants(None, None, None)  # the cluster's own scheduler manages resources
        self.job_id = job_id
        self._context, self._config, self._site = context, config, site
        self._needs, self._image = needs, image
        self.spoken = instance is not None
        self._uid = (instance or "").rpartition(".")[0]  # of the pod from which that keeper has called
        self._made = known  # True: the Job was created, or may have been created
        self._awaited = False  # True: the Job was created just now, and the watch has not shown it yet
        # task that creates the Job; it continues even if its caller is canceled
        self._creating: asyncio.Future[None] | None = None
        # time at which this server created the Job, by the loop's clock; None: it did not create the Job
        self._made_at: float | None = None
        self._written: str | None = None
        # last output of a keeper that runs and has not called for MUTE_S; None: not read
        self._said: str | None = None

    async def open(self) -> None:
        if self._config.code_directory is None:
            await self._site.code.pack()

    async def read_manager(self) -> Mapping[str, Any] | None:
        return {"token": self.new_token()}

    def new_token(self) -> str:
        return self._site.token(self.keeper_id)

    async def reach(self) -> Reach:
        return await self._site.reach()

    async def write_manager(self, manager: Mapping[str, Any]) -> None:
        text = json.dumps(manager)
        if text != self._written:
            await self._site.admit(self.keeper_id, text)
            self._written = text

    async def keep(self) -> None:
        if not self.spoken and self._site.sighting(self.keeper_id) is None:
            self._made = self._awaited = True
            self._made_at = asyncio.get_running_loop().time()
            creating = self._site.create(
                self.keeper_id, wants=self._needs(), job_id=self.job_id, image=self._image()
            )
            self._creating = asyncio.ensure_future(creating)
            try:
                await asyncio.shield(self._creating)
            except ImpossibleJob as error:
                raise HostGone(str(error), base.Cause.USER_ERROR) from error
        self.over = over = await self._end()
        reason = over.reason
        if over.cause in _MUTE and not self.spoken:
            pod = self._seen().pod
            said = None if pod is None else await self._site.last_words(pod, over.container)
            reason = f"{reason}, before its keeper had called"
            # A keeper that exited normally may have found no server. Then the trial has not failed.
            completed = over.cause is Cause.COMPLETED
            cause = base.Cause.INFRASTRUCTURE if completed else base.Cause.USER_ERROR
            raise HostGone(reason if said is None else f"{reason}; its last output: {said}", cause)
        raise HostGone(reason, _CAUSES.get(over.cause, base.Cause.INFRASTRUCTURE))

    def verdict(self) -> HostGone | None:
        """Return by how much the pod's trial exceeded ``activeDeadline``, or None.

        The server may know this before the cluster reports it.
        """
        if (ending := self._seen().ending) is not None:
            return HostGone(ending.reason, base.Cause.TIMEOUT)
        limit = self._config.deadline
        if limit is None or self._made_at is None:
            return None
        seconds = limit.total_seconds()
        if asyncio.get_running_loop().time() - self._made_at < seconds - ROUNDED_S:
            return None
        allowed = f"its activeDeadlineSeconds of {math.ceil(seconds)} s"
        return HostGone(f"the Job {self.keeper_id} ran longer than {allowed}", base.Cause.TIMEOUT)

    def departure(self) -> str | None:
        sight = self._seen()
        if sight.doubt is None or sight.doubt.sign is not Sign.DELETION:
            return None
        return f"its pod {sight.pod} was deleted"

    async def _end(self) -> Over:
        """Wait until the pod has ended, and return how it ended."""
        name = self.keeper_id
        news = self._site.news(name)
        restored = None  # the warning after which the Secret was written again
        while True:
            news.clear()
            sight = self._site.sighting(name)
            if sight is not None and sight.over is not None:
                return sight.over
            warning = None if sight is None else sight.waiting
            if warning not in (None, restored) and self._written and self._site.lacks_secret(warning):
                restored = warning
                await self._site.admit(name, self._written)
                continue
            if self._uid and self._site.has_lost_pod(name, self._uid):
                return Over(Cause.DELETED, f"the pod of {name} was deleted while no server looked")
            missing = sight is None and not self._awaited
            if missing and self._site.trouble is None and not await self._site.is_there(name):
                return Over(Cause.DELETED, f"the Job {name} was deleted")
            mute = sight is not None and sight.phase is Phase.RUNNING and not self.spoken
            try:
                async with asyncio.timeout(MUTE_S if mute and self._said is None else None):
                    await news.wait()
            except TimeoutError:
                await self._listen()

    async def _listen(self) -> None:
        """Read what the keeper of a pod has written that runs and has not called."""
        if not self.spoken and (pod := self._seen().pod) is not None:
            self._said = await self._site.last_words(pod) or ""
            self._site.retell(self.keeper_id)

    def _seen(self) -> Sighting:
        nothing = Sighting(uid=None, pod=None, node=None, phase=Phase.ABSENT)
        return self._site.sighting(self.keeper_id) or nothing

    async def end(self, *, told: bool) -> None:
        leaves = told and (self.obeys or (not self.leaves_at_once and await self._ends_by_itself()))
        if leaves and not self._seen().accompanied:
            return
        if self._creating is not None:  # wait for the creation, which could otherwise come after the deletion
            await asyncio.wait({self._creating})
        while self._made and self._may_run():
            try:
                await self._site.delete(self.keeper_id)
                return
            except ServiceUnavailable:
                if self.leaves_at_once:
                    raise
            await asyncio.sleep(RETRY_S)

    def _may_run(self) -> bool:
        """Return True if a pod of the Job may still run, or is kept by its other containers.

        A Job replaces a pod that was deleted.
        """
        sight = self._seen()
        if sight.over is None or sight.accompanied:
            return True
        return sight.uid is not None and sight.over.cause in (Cause.DELETED, Cause.NODE_LOST)

    async def _ends_by_itself(self) -> bool:
        try:
            async with asyncio.timeout(LEAVE_S):
                self.over = self.over or await self._end()
        except (TimeoutError, ServiceError):
            return False
        return not self._may_run()

    async def destroy(self) -> None:
        await self._site.delete(self.keeper_id)

    async def close(self) -> None:
        self._site.forget(self.keeper_id)

    def obstacle(self) -> str | None:
        """Return a sentence that says why the pod's keeper has not called yet, or None if it has called."""
        if self.spoken:
            return None
        sight = self._seen()
        waiting = sight.waiting or self.doubt or self._site.trouble
        if waiting is not None:
            return f"waits: {waiting}"
        if sight.phase is not Phase.RUNNING:
            return PODS.coming
        waits = f"waits for the keeper in its pod {sight.pod}"
        if self._said is None:
            return waits
        said = f"; its last output: {self._said}" if self._said else ""
        address = "pods have to reach it at the address nniManagerIp"
        return f"{waits}, which has not reached this server ({address}){said}"

    @property
    def accepted(self) -> bool:
        return self._seen().uid is not None or (self._creating is not None and succeeded(self._creating))

    @property
    def gang_address(self) -> str:
        return self._seen().address

    @property
    def has_node(self) -> bool:
        """True if the pod has a node of the cluster, and holds resources there."""
        return self.spoken or self._seen().node is not None

    @property
    def runs(self) -> bool:
        """True if the pod's container has started."""
        return self.spoken or self._seen().phase is Phase.RUNNING

    @property
    def doubt(self) -> str | None:
        doubt = self._seen().doubt
        return None if doubt is None else doubt.sentence

    def start_order(self, job: TrialJobSpec, gpus: tuple[int, ...]) -> StartOrder:
        directory = self._config.code_directory
        own = Wants.of(self._context).of_job(job).gpus
        given_by_cluster = self._config.resources.gpu or own
        order = start_order(
            self._context,
            job,
            None if given_by_cluster else gpus,
            platform="kubernetes",
            code=self._site.code.archive if directory is None else None,
            directory=directory,
        )
        gang = order.get("gang", {})
        if given_by_cluster and gang.get("processes") in ("gpu", "auto"):
            # The cluster sets no variable from which the crew could count the GPUs.
            return {**order, "gang": {**gang, "processes": str(int(given_by_cluster))}}
        return order


def pod_of(seat: KeeperSeat) -> PodHost:
    """Return the pod of a seat (a host with its keeper) of a cluster."""
    assert isinstance(seat.keeper_host, PodHost)
    return seat.keeper_host
