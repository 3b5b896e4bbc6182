"""Asynchronous client for a cluster's API. Objects are plain dicts, and each error is one sentence.

Each request is sent by its own thread, so a request that hangs delays neither other requests nor the end of
the process. ``login.py`` sends the requests; a thread imports that module, because its library is large.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import logging
import random
import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from training_services.base import ServiceUnavailable
from training_services.kubernetes.exchange import (
    Answer,
    ApiError,
    Request,
    refusal,
    status_error,
    unreachable,
)

if TYPE_CHECKING:
    import urllib3

    from training_services.kubernetes.login import Login

__all__ = [
    "CONFIG_MAPS",
    "EVENTS",
    "JOBS",
    "PODS",
    "SECRETS",
    "SERVICE_ACCOUNT",
    "ApiError",
    "Cluster",
    "Listing",
    "Resource",
    "WatchEvent",
]

logger = logging.getLogger(__name__)

ANSWER_S = 60.0  # limit in seconds for a request including its preparation, such as a login command
WATCH_S = 60  # seconds for which the server keeps a watch open
WATCH_SLACK_S = 10.0  # seconds; a watch that stays open this much longer than WATCH_S is dead
SLOTS = 8  # concurrent requests
PAGE = 500  # objects in one page of a list
TRIES = 4
LONGEST_PAUSE_S = 10.0  # longest pause before a retry that the server can request
LOG_LIMIT = 1 << 20  # bytes of a pod's log
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")

Object = dict[str, Any]
Objects = list[dict[str, Any]]
T = TypeVar("T")


class Resource(NamedTuple):
    """Kind of Kubernetes objects: its plural name in URLs, and the part of the URL before the namespace."""

    plural: str
    prefix: str


JOBS = Resource("jobs", "/apis/batch/v1")
PODS = Resource("pods", "/api/v1")
SECRETS = Resource("secrets", "/api/v1")
CONFIG_MAPS = Resource("configmaps", "/api/v1")
EVENTS = Resource("events", "/api/v1")
_REVIEWS = Resource("selfsubjectrulesreviews", "/apis/authorization.k8s.io/v1")


class WatchEvent(NamedTuple):
    """Event of a watch. ``type``: ADDED, MODIFIED, DELETED, or BOOKMARK, whose object has only a version."""

    type: str
    object: Object


WatchEvents = list[WatchEvent]


class Listing(NamedTuple):
    """Objects of one kind, and the ``resourceVersion`` of the cluster at which they were listed."""

    items: Objects
    resource_version: str


class Cluster:
    """Client for a Kubernetes cluster, with the permissions of one user.

    ``kubeconfig``: a file; None: the files in ``KUBECONFIG`` of ``environ``, else ``~/.kube/config``, else
    the service account of this pod. ``context`` None: the context that is current at the first login; it is
    kept from then on. Login commands run with ``environ``, which may contain secrets.

    Methods that send a request raise ``ServiceUnavailable`` (unreachable, overloaded, no way to log in) or
    ``ApiError`` (the cluster refuses), with one sentence each. Requests other than POST are repeated once
    after a broken connection. When a login is no longer accepted, the client logs in again.
    """

    def __init__(
        self,
        kubeconfig: str | Path | None,
        context: str | None,
        environ: Mapping[str, str],
        *,
        service_account: Path = SERVICE_ACCOUNT,
    ) -> None:
        self._kubeconfig = None if kubeconfig is None else str(kubeconfig)
        self._environ = environ
        self._service_account = service_account
        self._context = context
        self._login: Login | None = None
        self._first: Login | None = None
        self._logging_in = asyncio.Lock()
        self._slots = asyncio.Semaphore(SLOTS)

    @property
    def namespace(self) -> str:
        """Namespace of the kubeconfig's context. Available after ``connect``."""
        return self._known().namespace

    @property
    def server(self) -> str:
        """URL of the API server. Available after ``connect``."""
        return self._known().server

    @property
    def context(self) -> str | None:
        """Name of the kubeconfig's context; None if the pod's service account is used. Available after
        ``connect``.
        """
        return self._known().context

    def _known(self) -> Login:
        if self._first is None:
            raise RuntimeError("call connect() first")
        return self._first

    async def connect(self) -> None:
        """Read the kubeconfig and the user's credentials, unless they were read before.

        This sends no request to the cluster. Raises ServiceUnavailable.
        """
        await self._logged_in()

    async def create(
        self, resource: Resource, namespace: str, body: Mapping[str, Any], *, dry_run: bool = False
    ) -> Object:
        """Create the object in the cluster, and return it as the cluster has stored it.

        With ``dry_run``, the cluster only checks the object and creates nothing.
        """
        query: dict[str, str | int] = {"dryRun": "All", "fieldValidation": "Strict"} if dry_run else {}
        request = self._request("creating", "POST", resource, namespace, query=query, body=body)
        return _object(await self._ask(request))

    async def review_rights(self, namespace: str) -> Object:
        """Return the cluster's ``SelfSubjectRulesReview``: what this user may do in the namespace."""
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectRulesReview",
            "spec": {"namespace": namespace},
        }
        request = self._request("creating", "POST", _REVIEWS, namespace, body=body)
        return _object(await self._ask(request._replace(path=f"{_REVIEWS.prefix}/{_REVIEWS.plural}")))

    async def patch(self, resource: Resource, namespace: str, name: str, body: Mapping[str, Any]) -> Object:
        """Merge ``body`` into the object in the cluster, and return the result.

        None deletes a key; lists are replaced.
        """
        request = self._request("changing", "PATCH", resource, namespace, name, body=body)
        return _object(await self._ask(request._replace(content_type="application/merge-patch+json")))

    async def get(self, resource: Resource, namespace: str, name: str) -> Object | None:
        """Return the object with this name from the cluster, or None if it does not exist."""
        try:
            return _object(await self._ask(self._request("reading", "GET", resource, namespace, name)))
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    async def list(
        self,
        resource: Resource,
        namespace: str,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
    ) -> Listing:
        """Return all objects in the cluster that match the selectors. Long lists are read in pages."""
        request = self._request("listing", "GET", resource, namespace)
        for attempt in itertools.count(1):
            items: Objects = []
            query = {"limit": PAGE, **_selectors(label_selector, field_selector)}
            try:
                while True:
                    page = _object(await self._ask(request._replace(query=query)))
                    items += page.get("items") or []
                    meta = page.get("metadata") or {}
                    if not meta.get("continue"):
                        return Listing(items, str(meta.get("resourceVersion") or ""))
                    query = {**query, "continue": meta["continue"]}
            except ApiError as error:
                if error.status != 410 or attempt == TRIES:  # the pages have expired while they were read
                    raise
        raise AssertionError("unreachable")

    async def delete(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        *,
        propagation: str = "Background",
        uid: str | None = None,
    ) -> bool:
        """Delete the object.

        Return False if there is no object of this name, or if its uid is not ``uid``.
        """
        body: dict[str, Any] = {"propagationPolicy": propagation}
        if uid is not None:
            body["preconditions"] = {"uid": uid}
        try:
            await self._ask(self._request("deleting", "DELETE", resource, namespace, name, body=body))
        except ApiError as error:
            if error.status == 404 or (error.status == 409 and uid is not None):
                return False
            raise
        return True

    async def pod_log(
        self,
        namespace: str,
        pod: str,
        *,
        container: str | None = None,
        tail_lines: int | None = None,
    ) -> str:
        """Return the end of the output of a pod's container, at most 1 MiB.

        ``container`` may be None if the pod has only one container.
        """
        request = self._request("reading the logs of", "GET", PODS, namespace, pod)
        query: dict[str, str | int] = {"limitBytes": LOG_LIMIT}
        if container is not None:
            query["container"] = container
        if tail_lines is not None:
            query["tailLines"] = tail_lines
        answer = await self._ask(request._replace(path=f"{request.path}/log", query=query))
        return answer.body.decode(errors="replace")

    async def watch(
        self,
        resource: Resource,
        namespace: str,
        *,
        resource_version: str,
        label_selector: str | None = None,
        field_selector: str | None = None,
        timeout_s: int = WATCH_S,
    ) -> AsyncGenerator[WatchEvents]:
        """Yield the changes of objects after ``resource_version`` in batches, for ``timeout_s`` seconds.

        The first batch is empty: it shows that the watch is open. Raises ApiError (410: the version is too
        old, list the objects again) and ServiceUnavailable (the connection broke, or was silent for too
        long). After the timeout it ends without an error; call it again with the last version. Close the
        generator with ``aclose``.
        """
        request = self._request("watching", "GET", resource, namespace)
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": timeout_s,
            **_selectors(label_selector, field_selector),
        }
        read_s = timeout_s + WATCH_SLACK_S
        answer = await self._ask(request._replace(query=query, read_s=read_s, stream=True))
        assert answer.stream is not None
        reading = _Reading(answer.stream)
        try:
            yield []
            while (batch := await reading.batch()) is not None:
                for event in batch:
                    if event.type == "ERROR":
                        raise status_error(event.object, request.doing)
                yield batch
            if reading.failure is not None:
                raise ServiceUnavailable(unreachable(self.server, reading.failure))
        finally:
            reading.close()

    async def close(self) -> None:
        """Close the connections that no request uses."""
        if self._login is not None:
            self._login.close()
            self._login = None

    def _request(
        self,
        doing: str,
        method: str,
        resource: Resource,
        namespace: str,
        name: str | None = None,
        *,
        query: dict[str, str | int] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> Request:
        path = f"{resource.prefix}/namespaces/{namespace}/{resource.plural}"
        return Request(
            f"{doing} {resource.plural} in namespace {namespace}",
            method,
            path if name is None else f"{path}/{name}",
            query or {},
            body,
        )

    async def _ask(self, request: Request) -> Answer:
        """Send the request, retry it after temporary errors, and return the answer.

        Raises ApiError, ServiceUnavailable.
        """
        again = broken = False
        for attempt in itertools.count(1):
            login = await self._logged_in()
            try:
                async with self._slots, asyncio.timeout(max(ANSWER_S, request.read_s)):
                    answer = await _in_thread(partial(login.send, request))
            except Exception as error:
                if not isinstance(error, (TimeoutError, *login.failures)):
                    raise
                self._forget(login)  # the credentials may have changed as well
                if login.was_cut(error) and request.method != "POST" and not broken:
                    broken = True
                    continue
                raise ServiceUnavailable(unreachable(login.server, error)) from error
            if answer.status < 300:
                return answer
            if answer.status == 401 and not again:
                again = True
                self._forget(login)
                continue
            if (answer.status == 429 or answer.pause_s is not None) and attempt < TRIES:
                pause_s = min(LONGEST_PAUSE_S, 0.5 * attempt if answer.pause_s is None else answer.pause_s)
                # The pause is random, so that clients do not all retry at the same time.
                await asyncio.sleep(pause_s * random.uniform(1, 1.25))
                continue
            raise refusal(answer, request.doing, login.server)
        raise AssertionError("unreachable")

    async def _logged_in(self) -> Login:
        async with self._logging_in:
            if self._login is None:
                try:
                    async with asyncio.timeout(ANSWER_S):
                        self._login = await _in_thread(self._log_in)
                except TimeoutError:
                    raise ServiceUnavailable(
                        f"the login command of the kubeconfig has not ended within {ANSWER_S:g} s"
                    ) from None
                self._first = self._first or self._login
                # keep this context, even if the user makes another context current in the kubeconfig
                self._context = self._first.context
            return self._login

    def _log_in(self) -> Login:
        from training_services.kubernetes.login import log_in

        return log_in(self._kubeconfig, self._context, self._environ, self._service_account)

    def _forget(self, login: Login) -> None:
        if self._login is login:
            self._login = None
            login.close()


class _Reading:
    """Thread that reads the events of a watch and passes them on to the event loop."""

    def __init__(self, response: urllib3.HTTPResponse) -> None:
        self.failure: BaseException | None = None
        self._response = response
        self._loop = asyncio.get_running_loop()
        self._come = asyncio.Event()
        self._told = self._ended = False
        self._events: deque[WatchEvent] = deque()
        threading.Thread(target=self._read, name="kubernetes watch", daemon=True).start()

    async def batch(self) -> list[WatchEvent] | None:
        """Wait for events of the watch and return all that have come; None at the end of the watch."""
        while not self._events and not self._ended:
            await self._come.wait()
            self._come.clear()
            self._told = False
        return [self._events.popleft() for _ in range(len(self._events))] or None

    def close(self) -> None:
        """Make the thread that reads the watch end soon. The thread closes the connection itself."""
        with contextlib.suppress(OSError, RuntimeError, ValueError):  # the thread has ended already
            self._response.shutdown()

    def _read(self) -> None:
        rest = b""
        try:
            for piece in self._response.stream(1 << 16):
                *lines, rest = (rest + piece).split(b"\n")
                for line in filter(None, lines):
                    event = json.loads(line)
                    self._events.append(WatchEvent(str(event["type"]), event["object"]))
                if lines:
                    self._tell()
        except Exception as error:  # a broken connection, or an answer that is not a watch
            self.failure = error
        finally:
            self._response.close()
            self._ended = True
            self._tell()

    def _tell(self) -> None:
        if not self._told or self._ended:
            self._told = True
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._come.set)


def _in_thread(call: Callable[[], T]) -> asyncio.Future[T]:
    """Run the function ``call`` in its own thread and return a future for its result.

    A call that hangs delays neither other calls nor the end of the process.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(result)  # type: ignore[arg-type]
        else:
            future.set_exception(error)

    def work() -> None:
        result, failure = None, None
        try:
            result = call()
        except BaseException as error:
            failure = error
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(settle, result, failure)

    threading.Thread(target=work, name="kubernetes", daemon=True).start()
    return future


def _object(answer: Answer) -> Object:
    """Return the object in the server's answer.

    Raises ServiceUnavailable if the answer is not an object, because the server is not a Kubernetes API
    server.
    """
    if not isinstance(answer.value, dict):
        raise ServiceUnavailable(
            "the server's answer is not an object of the Kubernetes API: check the server's address"
        )
    return answer.value


def _selectors(labels: str | None, fields: str | None) -> dict[str, str | int]:
    chosen = {"labelSelector": labels, "fieldSelector": fields}
    return {key: value for key, value in chosen.items() if value is not None}
