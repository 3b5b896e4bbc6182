"""A stored fixture in a home of its own, and the present code's server on it, in this process."""

from __future__ import annotations

import json
import lzma
import sys
import tarfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import httpx

from nnimgr.api.app import create_app
from nnimgr.api.auth import AllowedHosts, Credentials
from nnimgr.api.dependencies import ApiParts
from nnimgr.api.sessions import Sessions
from nnimgr.core.managing.assembly import Assembly
from nnimgr.core.managing.manager import NNIManager
from nnimgr.home import Home
from tests.api.lab import BEARER, TOKEN, NearAnalyst
from tests.stored.answers import comparable
from tests.stored.making import BOOT, EXPERIMENTS, PLACE, PORT, VIEWER_PORT

FIXTURES = sorted(Path(__file__).parent.glob("*/*.tar.xz"))
_BOOT_FILE = f"{PLACE}/boot"


@dataclass(frozen=True, slots=True)
class Stored:
    """An experiment of an earlier version, unpacked below ``directory``."""

    id: str
    directory: Path
    recorded: dict[str, Any]  # by path: the answers of the version that stored it

    @property
    def home(self) -> Home:
        return Home(self.directory / "home")

    @property
    def experiments(self) -> Path:
        return self.directory / "experiments"

    @property
    def folder(self) -> Path:
        return self.experiments / self.id

    @property
    def url(self) -> str:
        return f"/api/v1/experiments/{self.id}"

    @property
    def profile(self) -> dict[str, Any]:
        """The experiment as it was recorded."""
        return dict(self.recorded[self.url]["body"])

    @property
    def trials(self) -> list[dict[str, Any]]:
        """All its trials as they were recorded."""
        return list(self.recorded[f"{self.url}/trials?sort=sequence&order=desc"]["body"]["trials"])

    def as_recorded(self, text: str) -> str:
        """Return an answer as it would be if it were given where the fixture was made."""
        return text.replace(str(self.experiments), str(EXPERIMENTS))


def unpack(fixture: Path, directory: Path, *, port: int = PORT) -> Stored:
    """Unpack a fixture. Its server had ``port``; the environment that it gave to children is this one."""
    name = fixture.name.removesuffix(".tar.xz")
    answers = fixture.with_name(f"{name}.answers.json.xz")
    stored = Stored(name, directory, json.loads(lzma.decompress(answers.read_bytes())))
    with tarfile.open(fixture) as packed:
        packed.extractall(stored.experiments, filter="data")
    stored.home.path.mkdir()
    index = json.loads((stored.experiments / "index.json").read_text())
    index[name] |= {"logDir": str(stored.experiments), "port": port}
    stored.home.index_path.write_text(json.dumps(index))
    environ = stored.folder / "environ.json"
    text = environ.read_text().replace(f"{PLACE}/python", sys.prefix)
    environ.write_text(text.replace(_BOOT_FILE, str(directory / "boot")))
    (directory / "boot").write_text(f"{BOOT[:-1]}f\n")  # the machine has been started again since
    return stored


@dataclass(frozen=True, slots=True)
class Viewer:
    """The application on a stored experiment."""

    stored: Stored
    manager: NNIManager
    client: httpx.AsyncClient

    async def get(self, path: str) -> dict[str, Any]:
        """Ask as the fixture's maker did; return what it has kept of an answer."""
        answer = await self.client.get(path)
        kind = answer.headers.get("content-type") or ""
        text = self.stored.as_recorded(answer.content.decode("utf-8", "backslashreplace"))
        return {"status": answer.status_code, "type": kind, "body": comparable(kind, text)}


@asynccontextmanager
async def viewing(
    stored: Stored, assembly: Assembly, *, port: int = VIEWER_PORT
) -> AsyncGenerator[Viewer, None]:
    """Serve the home. On another port than the experiment's own it is read, on its own it is opened."""
    manager = NNIManager(home=stored.home, port=port, assembly=assembly)
    base = f"http://localhost:{port}"
    parts = ApiParts(
        analyst=NearAnalyst(),
        manager=manager,
        credentials=Credentials(lambda: TOKEN, sessions=Sessions(), port=port),
        url=base,
        port=port,
        version="0.0.test",
        started_at=datetime.now(UTC),
    )
    app = create_app(parts, hosts=AllowedHosts("127.0.0.1"))
    transport = httpx.ASGITransport(app=cast(Any, app), raise_app_exceptions=False)
    async with manager, httpx.AsyncClient(transport=transport, base_url=base, headers=BEARER) as client:
        yield Viewer(stored, manager, client)
