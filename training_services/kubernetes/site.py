"""Connection of an experiment to its cluster: creates the objects there, and watches the experiment's Jobs.

The number of requests per trial is bounded. One request creates the Job. Another changes the keepers' Secret,
for all keepers that are added or removed at the same time. All other information comes from a watch of the
Jobs.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from training_services.addresses import KeeperDoors, Reach
from training_services.base import TRIAL_GRACE, ExperimentContext, ServiceError, ServiceUnavailable
from training_services.code import PackedCode
from training_services.kubernetes import manifest
from training_services.kubernetes.client import CONFIG_MAPS, JOBS, SECRETS, ApiError, Cluster, Resource
from training_services.kubernetes.config import KubernetesConfig
from training_services.kubernetes.entries import Entries
from training_services.kubernetes.manifest import Belonging, ResourceFault
from training_services.kubernetes.sighting import Sighting
from training_services.kubernetes.syntax import CONTAINER, label_value
from training_services.kubernetes.template import TemplateError
from training_services.kubernetes.watch import JobWatch
from training_services.own_address import own_address
from training_services.placement.needs import Wants
from trial_keeper import zipapp

__all__ = ["ImpossibleJob", "Site", "succeeded"]

_FILE = "keepers/kubernetes.json"
_LOG_LINES = 5


class ImpossibleJob(ServiceError):
    """Error: the cluster will never accept this Job."""


class _Kept(NamedTuple):
    """Values for an experiment that are stored on disk: the key from which tokens are derived, and its
    cluster.

    The kubeconfig's context and the namespace stay as they were for the first Job, even if the kubeconfig
    changes.
    """

    key: str  # hex
    database: str  # id of the experiment's database
    context: str | None = None
    namespace: str | None = None


class Site:
    """Connection of an experiment to its cluster.

    ``changed`` is called with the names of Jobs that have changed. It is called without names when the
    cluster stops or starts to answer.
    """

    def __init__(
        self,
        context: ExperimentContext,
        config: KubernetesConfig,
        doors: KeeperDoors,
        *,
        changed: Callable[[Collection[str]], None],
    ) -> None:
        self.code = PackedCode(context)
        self._context, self._config, self._doors = context, config, doors
        self._cluster = self._login(config.context)
        self._tell = changed
        self._kept: _Kept | None = None
        self._database_id = ""
        self._watch: JobWatch | None = None
        self._news: dict[str, asyncio.Event] = {}  # name of a Job -> event that is set when the Job changes
        self._making: asyncio.Future[Belonging] | None = None
        self._archive: str | None = None  # name of the ConfigMap with the keeper
        self._entries = Entries(self._patch_secret)

    def _login(self, context: str | None) -> Cluster:
        return Cluster(self._config.kubeconfig, context, self._context.environ)

    # ---- life ---------------------------------------------------------------------------------------------

    def open(self, database_id: str) -> None:
        """Read the experiment's stored values, such as the key for tokens, or create them.

        This sends no request to the cluster, so that the server answers keepers even if the cluster is
        unreachable.
        """
        self._database_id = database_id
        path = self._context.directory / _FILE
        kept = _read(path)
        if kept is None:
            kept = _Kept(key=secrets.token_hex(32), database=database_id)
            _keep(path, kept)
        self._kept = kept
        if kept.context is not None:
            self._cluster = self._login(kept.context)

    async def close(self) -> None:
        if self._making is not None:
            self._making.cancel()
            await asyncio.gather(self._making, return_exceptions=True)
        await self._entries.close()
        if self._watch is not None:
            await self._watch.close()
        await self._cluster.close()

    def token(self, keeper_id: str) -> str:
        """Return the secret token of a keeper, which is derived from a stored key and not stored itself."""
        assert self._kept is not None
        return hmac.new(bytes.fromhex(self._kept.key), keeper_id.encode(), hashlib.sha256).hexdigest()

    @property
    def trouble(self) -> str | None:
        """Sentence that says why the cluster does not answer, and since when; None if it answers."""
        return None if self._watch is None else self._watch.trouble

    async def reach(self) -> Reach:
        """Return the server's address for pods, and start to listen there.

        This also works while the cluster is unreachable. Raises ServiceError.
        """
        address = self._context.nni_manager_ip or self._doors.url
        if address is None:
            await self._cluster.connect()
            address = await asyncio.to_thread(own_address, self._cluster.server)
        if address is None:
            raise ServiceUnavailable(
                "the address at which pods can reach this server is unknown: set nniManagerIp"
            )
        return await self._doors.network(address)

    # ---- state of the Jobs --------------------------------------------------------------------------------

    def sighting(self, name: str) -> Sighting | None:
        return None if self._watch is None else self._watch.sighting(name)

    def has_lost_pod(self, name: str, uid: str) -> bool:
        """Return True if the cluster has replaced this pod of a Job by another one."""
        return self._watch is not None and self._watch.has_lost_pod(name, uid)

    def news(self, name: str) -> asyncio.Event:
        """Return the event that is set whenever the Job of this name changes."""
        return self._news.setdefault(name, asyncio.Event())

    def forget(self, name: str) -> None:
        """Delete the event of the Job of this name, because no task uses it any longer."""
        self._news.pop(name, None)

    async def is_there(self, name: str) -> bool:
        """Return True if the cluster has this Job and it belongs to this experiment. Raises ServiceError."""
        namespace = (await self._belonging()).namespace
        found = await self._cluster.get(JOBS, namespace, name)
        return found is not None and self._is_ours(found)

    def _changed(self, names: Collection[str]) -> None:
        for name in names or self._news:
            if (event := self._news.get(name)) is not None:
                event.set()
        self._tell(names)

    # ---- changes in the cluster ---------------------------------------------------------------------------

    async def admit(self, keeper_id: str, text: str) -> None:
        """Write a keeper's ``manager.json`` to the experiment's Secret in the cluster.

        Raises ServiceError.
        """
        await self._entries.put(keeper_id, text)

    def lacks_secret(self, warning: str) -> bool:
        """Return whether a pod waits because the Secret with its ``manager.json`` is missing or incomplete.

        ``warning``: what the cluster says about the pod.
        """
        named = f'"{manifest.shared_name(self._context.experiment_id)}"' in warning
        return named and ("not found" in warning or "non-existent" in warning)

    def retell(self, name: str) -> None:
        """Let the reasons for which jobs wait be made again, since that of this Job's pod has changed."""
        self._tell((name,))

    def dismiss(self, keeper_id: str) -> None:
        """Mark the keeper's ``manager.json``, so that the next write of the Secret removes it."""
        self._entries.drop(keeper_id)

    async def create(self, keeper_id: str, *, wants: Wants, job_id: str | None, image: str | None) -> None:
        """Create the Job for a keeper's pod if it does not exist. Raises ImpossibleJob, ServiceError.

        ``job_id``: the only job, or member of a gang, that the pod runs; None: it runs many jobs. ``image``:
        its image; None: that of the configuration.
        """
        belonging = await self._belonging()
        try:
            job = manifest.job(
                self._config if image is None else self._config.model_copy(update={"image": image}),
                belonging,
                keeper_id=keeper_id,
                wants=wants,
                grace=TRIAL_GRACE,
                job_id=job_id,
                archive=self._archive,
            )
            await self._make(JOBS, job)
        except (ResourceFault, TemplateError) as error:
            raise ImpossibleJob(str(error)) from error
        except ApiError as error:
            if error.status in (400, 422):
                raise ImpossibleJob(f"the cluster rejects the Job: {error}") from error
            raise

    async def delete(self, name: str) -> None:
        """Delete the Job of this name. Its pod gets time to stop its trial. Raises ServiceError."""
        sight = self.sighting(name)
        namespace = await self._namespace()
        uid = None if sight is None else sight.uid
        await self._cluster.delete(JOBS, namespace, name, propagation="Foreground", uid=uid)

    async def last_words(self, pod: str, container: str = CONTAINER) -> str | None:
        """Return the last lines of a container's output, joined to one line; None if it cannot be read."""
        try:
            namespace = await self._namespace()
            text = await self._cluster.pod_log(namespace, pod, container=container, tail_lines=_LOG_LINES)
        except ServiceError:
            return None
        return " | ".join(line.strip() for line in text.splitlines() if line.strip()) or None

    async def remove_credentials(self) -> None:
        """Delete the Secret with the keepers' tokens; call after the last keeper has ended.

        A Secret of this name may belong to an experiment of another server. Raises ServiceError.
        """
        await self._delete_own(SECRETS, propagation="Background")

    async def remove(self, *, only_look: bool) -> None:
        """Remove the experiment's objects from the cluster, unless ``only_look``. Raises ServiceError."""
        self._kept = _read(self._context.directory / _FILE)
        if self._kept is None or self._kept.namespace is None:
            return  # the experiment has no objects in the cluster
        self._database_id = self._kept.database
        if self._kept.context is not None:
            self._cluster = self._login(self._kept.context)
        await self._delete_own(CONFIG_MAPS, propagation="Foreground", only_look=only_look)

    async def _delete_own(self, resource: Resource, *, propagation: str, only_look: bool = False) -> None:
        """Delete the object of this kind that all pods share, if there is one and it is this experiment's.

        With the propagation ``Foreground``, the object stays until all objects that it owns are gone.
        """
        namespace, name = await self._namespace(), manifest.shared_name(self._context.experiment_id)
        found = await self._cluster.get(resource, namespace, name)
        if found is not None and self._is_ours(found) and not only_look:
            uid = found["metadata"]["uid"]
            await self._cluster.delete(resource, namespace, name, propagation=propagation, uid=uid)

    async def _belonging(self) -> Belonging:
        """Create the objects that all pods need, unless this was done before. Raises ServiceError.

        Return the data that all other objects need, such as the uid of the ConfigMap that owns them.
        """
        if self._making is None or (self._making.done() and not succeeded(self._making)):
            self._making = asyncio.ensure_future(self._begin())
        return await asyncio.shield(self._making)

    async def _namespace(self) -> str:
        await self._cluster.connect()
        kept = self._kept
        if kept is not None and kept.namespace is not None:
            return kept.namespace
        namespace = self._config.namespace or self._cluster.namespace
        if kept is not None:
            self._kept = kept._replace(context=self._cluster.context, namespace=namespace)
            await asyncio.to_thread(_keep, self._context.directory / _FILE, self._kept)
        return namespace

    async def _begin(self) -> Belonging:
        namespace = await self._namespace()
        if self._watch is None:
            self._watch = JobWatch(
                self._cluster,
                namespace,
                label_value(self._context.experiment_id),
                self._changed,
                labels={manifest.DATABASE_LABEL: label_value(self._database_id)},
            )
            await self._watch.open()
        orphan = Belonging(
            experiment_id=self._context.experiment_id, database_id=self._database_id, namespace=namespace
        )
        owner = await self._make(CONFIG_MAPS, manifest.owner(orphan))
        belonging = Belonging(
            experiment_id=orphan.experiment_id,
            database_id=orphan.database_id,
            namespace=namespace,
            owner_uid=owner["metadata"]["uid"],
        )
        if self._config.keeper_image is None:
            content = await asyncio.to_thread(zipapp.content, compiled=True)
            archive = manifest.archive(belonging, content)
            await self._make(CONFIG_MAPS, archive)
            self._archive = archive["metadata"]["name"]
        texts = manifest.secret_texts(self._config)
        there = await self._make(SECRETS, manifest.secret(belonging, texts))
        kept = there.get("data") or {}
        wanted = manifest.secret(belonging, texts)["data"]
        if any(kept.get(key) != text for key, text in wanted.items()):
            await self._cluster.patch(
                SECRETS, namespace, there["metadata"]["name"], manifest.secret_patch(texts)
            )
        return belonging

    async def _make(self, resource: Resource, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Create the object, or return the existing one if this experiment owns it. Raises ServiceError."""
        name, namespace = body["metadata"]["name"], body["metadata"]["namespace"]
        try:
            return await self._cluster.create(resource, namespace, body)
        except ApiError as error:
            if error.status != 409 or error.reason != "AlreadyExists":
                raise
        found = await self._cluster.get(resource, namespace, name)
        if found is None:
            raise ServiceUnavailable(f"{body['kind']} {name} in namespace {namespace} is being deleted")
        if not self._is_ours(found):
            raise ServiceUnavailable(
                f"{body['kind']} {name} in namespace {namespace} does not belong to this experiment: "
                "create the experiment with another --id, or in another namespace"
            )
        if found["metadata"].get("deletionTimestamp") is not None:
            raise ServiceUnavailable(f"{body['kind']} {name} in namespace {namespace} is being deleted")
        return found

    def _is_ours(self, found: Mapping[str, Any]) -> bool:
        tags = found["metadata"].get("labels") or {}
        return bool(tags.get(manifest.DATABASE_LABEL) == label_value(self._database_id))

    async def _patch_secret(self, entries: Mapping[str, str | None]) -> None:
        """Write entries of the Secret. If another client has deleted it, create it again."""
        name = manifest.shared_name(self._context.experiment_id)
        for is_last in (False, True):
            belonging = await self._belonging()
            try:
                await self._cluster.patch(SECRETS, belonging.namespace, name, manifest.secret_patch(entries))
                return
            except ApiError as error:
                if error.status != 404 or is_last:
                    raise
                self._making = None


def succeeded(future: asyncio.Future[Any]) -> bool:
    return future.done() and not future.cancelled() and future.exception() is None


def _read(path: Path) -> _Kept | None:
    """Read the stored values from the file; None if there is no file. Raises ServiceUnavailable."""
    try:
        said = json.loads(path.read_bytes())
        return _Kept(**{name: said[name] for name in _Kept._fields})
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ServiceUnavailable(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise ServiceUnavailable(
            f"{path} is damaged: this experiment's pods can no longer be found"
        ) from error


def _keep(path: Path, kept: _Kept) -> None:
    """Write the values to the file. Raises ServiceUnavailable."""
    fresh = path.with_suffix(".new")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(descriptor, "w", encoding="ascii") as file:
            json.dump(kept._asdict(), file)
            file.flush()
            os.fsync(file.fileno())
        fresh.rename(path)
    except OSError as error:
        raise ServiceUnavailable(f"{path} cannot be written: {error.strerror}") from error
