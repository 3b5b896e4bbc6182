"""Ray cluster behind its dashboard's address, as all experiments of the server share it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from urllib.parse import quote

from training_services.base import Cause, ServiceUnavailable
from training_services.keepers.gone import HostGone
from training_services.ray.records import Record, read_record

if TYPE_CHECKING:
    import httpx

__all__ = ["Cluster", "Credentials", "Watcher"]

ANSWER_S = 30.0
LOOK_S = 10.0  # time between two looks whether the cluster answers, and is still the same
SLOTS = 8  # concurrent requests
LIST_LIMIT = 10_000  # nodes in one answer


class Credentials(NamedTuple):
    """How the cluster is asked. ``file``: file of the token, which is read for each check.

    ``insecure``: the user accepts a cluster that needs no token.
    """

    token: str | None
    file: Path | None
    insecure: bool


class Watcher(Protocol):
    """Allocation that has to know what becomes of the cluster."""

    def seen(self) -> None:
        """Look at what has changed: the cluster answers or not, or is another one."""


class _Answer(NamedTuple):
    status: int
    text: str

    def json(self) -> Any:
        try:
            return json.loads(self.text)
        except ValueError:
            raise ServiceUnavailable("the answer is not JSON: is this the address of Ray?") from None


class Cluster:
    """Shared use of one cluster. ``session``: name that Ray has given to this start of the cluster.

    ``trouble``: sentence that says why it cannot be used, and since when; None: it can be used.
    """

    def __init__(self, address: str, credentials: Credentials) -> None:
        self.address = address
        self.session: str | None = None
        self.trouble: str | None = None
        self._credentials = credentials
        self._token: str | None = None
        self._client: httpx.AsyncClient | None = None
        self._slots = asyncio.Semaphore(SLOTS)
        self._watchers: dict[Watcher, None] = {}
        self._task: asyncio.Task[None] | None = None
        self._checking = asyncio.Lock()

    # ---- whether it can be used ---------------------------------------------------------------------------

    def add(self, watcher: Watcher) -> None:
        self._watchers[watcher] = None
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="ray")

    def remove(self, watcher: Watcher) -> None:
        self._watchers.pop(watcher, None)

    async def check(self) -> str:
        """Return the session of the cluster. Raises ServiceUnavailable if it cannot be used now.

        A cluster that answers without a token is not used, unless the user accepts that. Whether it does is
        looked at when it is first asked, and again when it has been restarted.
        """
        async with self._checking:
            before = self.session, self.trouble
            try:
                self.session = await self._check()
                self.trouble = None
            except ServiceUnavailable as error:
                if self.trouble is None or not self.trouble.startswith(str(error)):
                    self.trouble = f"{error} (since {time.strftime('%H:%M:%S')})"
            if (self.session, self.trouble) != before:
                for watcher in list(self._watchers):
                    watcher.seen()
        if self.trouble is not None or self.session is None:
            raise ServiceUnavailable(self.trouble or "the Ray cluster does not answer")
        return self.session

    async def _check(self) -> str:
        self._token = await asyncio.to_thread(self._read_token)
        answer = await self._ask("GET", "/api/version")
        if answer.status in (401, 403):
            raise ServiceUnavailable(
                f"the Ray cluster at {self.address} does not accept the token (status {answer.status}): "
                "give its RAY_AUTH_TOKEN as token or tokenFile"
            )
        if answer.status != 200:
            raise ServiceUnavailable(f"the Ray cluster at {self.address} answers with status {answer.status}")
        found = answer.json()
        session = found.get("session_name") if isinstance(found, dict) else None
        if not isinstance(session, str):
            raise ServiceUnavailable(f"{self.address} is not that of Ray's dashboard, or Ray is too old")
        if session != self.session and not self._credentials.insecure:
            await self._check_protection()
        return session

    async def _check_protection(self) -> None:
        answer = await self._ask("GET", "/api/version", bare=True)
        if answer.status == 200:
            raise ServiceUnavailable(
                f"the Ray cluster at {self.address} needs no token, so everybody who reaches it can run "
                "programs there (CVE-2023-48022): start it with RAY_AUTH_MODE=token, or accept this with "
                "insecure: true"
            )

    def _read_token(self) -> str | None:
        token, file, _ = self._credentials
        if file is None:
            return token
        try:
            return file.expanduser().read_text().strip()
        except (OSError, ValueError) as error:
            raise ServiceUnavailable(f"tokenFile {file} cannot be read: {error}") from error

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            if self._watchers:
                try:
                    await self.check()
                except ServiceUnavailable:
                    continue  # the sentence is in ``trouble``

    # ---- jobs ---------------------------------------------------------------------------------------------

    async def submit(self, body: Mapping[str, Any]) -> None:
        """Submit a job, unless the cluster has it.

        Raises ServiceUnavailable, and HostGone if the cluster rejects the job.
        """
        answer = await self._ask("POST", "/api/jobs/", body)
        if answer.status == 200:
            return
        # Also an answer with an error may come after the job's record was written, for example by an earlier
        # call whose answer was lost.
        if await self.record(str(body["submission_id"])) is not None:
            return
        why = _last_line(answer.text)
        if answer.status == 400 or "status code 400" in answer.text:
            raise HostGone(f"Ray rejects the allocation: {why}", Cause.USER_ERROR)
        raise ServiceUnavailable(f"the Ray cluster cannot take the allocation now: {why}")

    async def record(self, job_id: str) -> Record | None:
        """Return a job; None if the cluster has no such job. Raises ServiceUnavailable."""
        answer = await self._ask("GET", f"/api/jobs/{quote(job_id)}")
        if answer.status == 404:
            return None
        return read_record(self._good(answer).json())

    async def stop(self, job_id: str) -> None:
        """Let Ray end a job. Nothing happens if it has ended, or there is none. Raises ServiceUnavailable."""
        answer = await self._ask("POST", f"/api/jobs/{quote(job_id)}/stop")
        if answer.status != 404:
            self._good(answer)

    async def output(self, job_id: str) -> str:
        """Return what a job has written to its standard output. Raises ServiceUnavailable."""
        answer = self._good(await self._ask("GET", f"/api/jobs/{quote(job_id)}/logs"))
        return str(answer.json().get("logs") or "")

    async def nodes(self) -> list[dict[str, float]]:
        """Return the resources of each living node, free or not. Raises ServiceUnavailable."""
        return [node["resources_total"] for node in await self._nodes() if node.get("state") == "ALIVE"]

    async def takes_for_dead(self, node_id: str) -> bool:
        """Return True if the cluster takes this node for dead. Raises ServiceUnavailable."""
        return any(node["node_id"] == node_id and node["state"] == "DEAD" for node in await self._nodes())

    async def _nodes(self) -> list[dict[str, Any]]:
        path = f"/api/v0/nodes?detail=true&limit={LIST_LIMIT}"
        found = self._good(await self._ask("GET", path)).json()["data"]["result"]["result"]
        return list(found)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._client is not None:
            await self._client.aclose()

    # ---- requests -----------------------------------------------------------------------------------------

    def _good(self, answer: _Answer) -> _Answer:
        if answer.status != 200:
            raise ServiceUnavailable(f"the Ray cluster answers with an error: {_last_line(answer.text)}")
        return answer

    async def _ask(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, bare: bool = False
    ) -> _Answer:
        """Send a request. ``bare``: without the token. Raises ServiceUnavailable if no answer comes."""
        if self._client is None:
            self._client = await asyncio.to_thread(_client)
        from httpx import HTTPError, InvalidURL

        headers = {"Authorization": f"Bearer {self._token}"} if self._token and not bare else {}
        async with self._slots:
            try:
                answer = await self._client.request(method, self.address + path, json=body, headers=headers)
            except (HTTPError, InvalidURL) as error:
                why = str(error) or type(error).__name__
                raise ServiceUnavailable(
                    f"the Ray cluster at {self.address} does not answer: {why}"
                ) from error
        return _Answer(answer.status_code, answer.text)


def _client() -> httpx.AsyncClient:
    import httpx  # in a thread, because the library is large

    return httpx.AsyncClient(timeout=ANSWER_S, follow_redirects=False, trust_env=False)


def _last_line(text: str) -> str:
    """Return the telling line of an error of Ray, which is the last one of a traceback."""
    lines = [line.strip() for line in text.splitlines() if len(line.strip()) > 1]
    return lines[-1][:300] if lines else "Ray gives no reason"
