"""Copies of checkpoints: the store on the server's disk, and the transfers to it and from it."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.simulation.disk import SIZE, Saved
from tests.simulation.kernel import Kernel
from tests.simulation.network import Exchange
from tests.simulation.witness import Witness
from training_services.base import KeptCopy
from training_services.checkpoint_store import CheckpointStore, Damaged
from trial_keeper import wire
from trial_keeper.checkpoints import contents
from trial_keeper.checkpoints.contents import Entry
from trial_keeper.core import effects as fx

if TYPE_CHECKING:
    from tests.simulation.keeper import SimKeeper

STEP_CRASH = 0.05  # probability before each step by which a copy becomes durable
CUT = 0.15  # probability that an upload is cut off
RETRY_S = 1.0
PIECE = 9

Name = tuple[str, int]  # job and number of a checkpoint


def encode(saved: Saved) -> bytes:
    """Return the content of a checkpoint's only file."""
    text = "torn" if saved.state is None else f"{saved.step} {saved.state}"
    return text.ljust(SIZE).encode()


def decode(content: bytes) -> Saved | None:
    """Return the checkpoint with this content; None if the content is damaged."""
    parts = content.decode(errors="replace").split()
    if len(content) != SIZE or len(parts) != 2:
        return None
    return Saved(int(parts[0]), int(parts[1]))


@dataclass(slots=True)
class Copy:
    """Folder of a copy. ``flushed``: its files are durable; ``named``: its name is durable."""

    manifest: bytes
    content: bytes
    flushed: bool = False
    named: bool = False


class Incoming:
    """Unfinished transfer on the server's disk."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.entries = list(entries)
        self.size = contents.size_of(entries)
        self.content = b""

    @property
    def offset(self) -> int:
        return len(self.content)

    def write(self, piece: bytes) -> None:
        self.content += piece

    def check(self, hashes: Sequence[str]) -> None:
        """Raise Damaged if the content is incomplete or has another hash."""
        if len(self.content) != self.size or [hashlib.sha256(self.content).hexdigest()] != list(hashes):
            raise Damaged("the content is incomplete, or its hash is wrong")

    def close(self) -> None:
        return None


class StoreDisk:
    """Content of the store on the disk of the server's machine."""

    def __init__(self, kernel: Kernel, witness: Witness) -> None:
        self.kernel, self.witness = kernel, witness
        self.parts: dict[Name, Incoming] = {}
        self.copies: dict[Name, Copy] = {}

    def lose_power(self) -> None:
        """Tear copies whose files were not flushed, and remove some whose names were not."""
        for part in self.parts.values():
            part.content = part.content[: self.kernel.random.randint(0, len(part.content))]
        for name, copy in list(self.copies.items()):
            if not copy.flushed:
                copy.content = copy.content[: self.kernel.random.randint(0, SIZE - 1)]
            if not copy.named and self.kernel.random.random() < 0.7:
                del self.copies[name]
            copy.flushed = copy.named = True

    def find(self, name: Name) -> Saved | None:
        """Return the checkpoint of a copy; None if there is no copy, or if it is damaged."""
        copy = self.copies.get(name)
        return None if copy is None else decode(copy.content)


class ServerDied(Exception):
    """Error: the server has died in the middle of a call."""


class SimStore(CheckpointStore):
    """``CheckpointStore``'s interface on the simulated disk. ``die`` ends the server that uses it.

    ``ORDER``: the parts by which a copy becomes durable. The server can die between any two of them.
    """

    ORDER = ("name_manifest", "flush", "name", "flush_parent")

    def __init__(self, disk: StoreDisk, die: Callable[[str], None]) -> None:
        super().__init__(Path("/"))
        self._disk, self._die, self._kernel = disk, die, disk.kernel

    def resume(self, job_id: str, number: int) -> Any:
        return self._disk.parts.get((job_id, number))

    def begin(self, job_id: str, number: int, entries: Sequence[Entry]) -> Any:
        made = self._disk.parts[job_id, number] = Incoming(entries)
        return made

    def finish(self, job_id: str, number: int, incoming: Any, hashes: Sequence[str]) -> KeptCopy:
        incoming.check(hashes)
        manifest = contents.manifest_of(incoming.entries, [hashlib.sha256(incoming.content).hexdigest()])
        copy = Copy(manifest, incoming.content)
        for step in self.ORDER:
            if self._kernel.likely(STEP_CRASH):
                self._die("while it makes a copy durable")
                raise ServerDied
            if step == "flush":
                copy.flushed = True
            elif step == "name":
                self._disk.parts.pop((job_id, number), None)
                self._disk.copies[job_id, number] = copy
            elif step == "flush_parent":
                copy.named = True
        self._kernel.counts["checkpoint copied"] += 1
        return KeptCopy(digest=hashlib.sha256(manifest).hexdigest(), size=incoming.size)

    def drop_part(self, job_id: str, number: int) -> None:
        self._disk.parts.pop((job_id, number), None)

    def drop_parts(self, trial_id: str) -> None:
        for name in [name for name in self._disk.parts if name[0].split("-")[1] == trial_id]:
            del self._disk.parts[name]

    def manifest(self, job_id: str, number: int) -> bytes:
        return self._copy(job_id, number).manifest

    def content(self, job_id: str, number: int) -> Any:
        content = self._copy(job_id, number).content
        if len(content) != SIZE:
            raise ValueError("a file has another size")
        return _Content(content)

    def _copy(self, job_id: str, number: int) -> Copy:
        copy = self._disk.copies.get((job_id, number))
        if copy is None:
            raise FileNotFoundError(f"{job_id}/{number}")
        return copy

    def remove(self, job_id: str, up_to: int, keep: Collection[int]) -> None:
        for name in list(self._disk.copies):
            if name[0] == job_id and name[1] <= up_to and name[1] not in keep:
                self._discard_copy(name)

    def tidy(self, known: Collection[Name], wanted: Collection[Name]) -> None:
        for name in [name for name in self._disk.copies if name not in known]:
            self._discard_copy(name)
        for name in [name for name in self._disk.parts if name not in wanted]:
            del self._disk.parts[name]

    def _discard_copy(self, name: Name) -> None:
        del self._disk.copies[name]
        self._kernel.say("store", "deletes the copy %s", name)
        self._disk.witness.checkpoints.copies.deleted(name)


class _Content:
    def __init__(self, content: bytes) -> None:
        self.size = len(content)
        self._content, self._at = content, 0

    def seek(self, offset: int) -> None:
        self._at = offset

    def read(self, size: int) -> bytes:
        piece = self._content[self._at : self._at + min(size, PIECE)]
        self._at += len(piece)
        return piece

    def close(self) -> None:
        return None


# ---- what the keeper does ---------------------------------------------------------------------------------


def serve(keeper: SimKeeper, effect: fx.Serve) -> list[fx.Effect]:
    """Upload a checkpoint soon, unless the same order was obeyed before."""
    if effect.kind == wire.CHECKPOINT and effect.number not in keeper.served:
        keeper.served.add(effect.number)
        keeper.kernel.at(keeper.host.network.delay(), _upload, keeper, effect)
    return []


def _upload(keeper: SimKeeper, effect: fx.Serve) -> None:
    host, kernel = keeper.host, keeper.kernel
    server = host.network.server
    if not keeper.alive:
        return
    if host.manager is None or host.cut or not host.up or server is None or not server.alive:
        keeper.served.discard(effect.number)
        return
    *folder, _, number = effect.directory.split("/")
    saved = host.files("/".join(folder)).checkpoints.get(int(number))
    if saved is None:
        pieces = [wire.read_end(error=wire.MISSING, sentence=f"{effect.directory} is missing")]
    else:
        content = encode(saved)
        rest = content[effect.offset :]
        pieces = [
            wire.read_piece(wire.DATA, contents.encode_list([Entry("value.bytes", SIZE)])),
            *(wire.read_piece(wire.DATA, rest[at : at + PIECE]) for at in range(0, len(rest), PIECE)),
            wire.read_end(hashes=[hashlib.sha256(content).hexdigest()]),
        ]
    if kernel.likely(CUT):
        kernel.fault("upload cut", host.name)
        del pieces[kernel.random.randrange(len(pieces)) :]
    kernel.say(host.name, "uploads %s from byte %d", effect.directory, effect.offset)
    path = f"{host.manager['path'].rpartition('/')[0]}/reads/{effect.number}"
    for _ in range(2 if kernel.likely(0.05) else 1):
        server.accept(_Upload(keeper, path, host.manager["token"], list(pieces)))


class _Upload(Exchange):
    """Call of a keeper that uploads a checkpoint, piece by piece."""

    def __init__(self, keeper: SimKeeper, path: str, token: str, pieces: list[bytes]) -> None:
        super().__init__(path, token, b"", None)
        self._keeper, self._pieces = keeper, pieces

    async def receive(self) -> dict[str, Any]:
        kernel, host = self._keeper.kernel, self._keeper.host
        await asyncio.sleep(kernel.random.choice([0.001, 0.001, 0.001, 0.2, 2.0]))
        if not self._pieces or not self._keeper.alive or host.cut or not host.up:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": self._pieces.pop(0), "more_body": True}


def fetch(keeper: SimKeeper, effect: fx.Spawn, missing: str) -> list[fx.Effect]:
    """Fetch the server's copy from which the attempt continues, and then start the attempt.

    ``missing``: sentence about the checkpoint that is missing on the host.
    """
    kept = effect.start["origin"].get("kept")
    if kept is None:
        return keeper.core.origin_missing(keeper.now, effect.job, missing)
    keeper.kernel.at(keeper.host.network.delay(), _Fetch(keeper, effect, kept).try_again)
    return keeper.core.delayed(keeper.now, effect.job, "the checkpoint is being fetched")


class _Fetch:
    """Transfer of a copy to a host."""

    def __init__(self, keeper: SimKeeper, effect: fx.Spawn, kept: wire.KeptCopy) -> None:
        self._keeper, self._effect, self._kept = keeper, effect, kept
        self._manifest = b""
        self._damaged = False

    def try_again(self) -> None:
        attempt = self._keeper.core.attempts.get(self._effect.job)
        if self._keeper.alive and attempt is not None and attempt.live and not attempt.claimed:
            self._call("manifest", self._take_manifest)

    def _call(self, what: str, take: Callable[[bytes], None]) -> None:
        host = self._keeper.host
        server = host.network.server
        if host.manager is None or host.cut or not host.up or server is None or not server.alive:
            self._keeper.kernel.at(RETRY_S, self.try_again)
            return
        path = f"{host.manager['path'].rpartition('/')[0]}/checkpoints/{self._kept['job']}"
        exchange = _Download(f"{path}/{self._kept['number']}/{what}", host.manager["token"], self, take)
        server.accept(exchange)
        self._keeper.kernel.at(5.0, exchange.expire)

    def answered(self, status: int, body: bytes | None, take: Callable[[bytes], None]) -> None:
        """Take an answer; ``body`` None: the connection has ended before the answer was complete."""
        keeper, host = self._keeper, self._keeper.host
        if status == 404:
            missing = "the server has no usable copy"
            keeper.tell(keeper.core.origin_missing, self._effect.job, missing)
        elif status != 200 or body is None or host.cut or not host.up or keeper.kernel.likely(0.1):
            keeper.kernel.at(RETRY_S, self.try_again)
        else:
            keeper.kernel.at(host.network.delay(), take, body)

    def _take_manifest(self, manifest: bytes) -> None:
        self._manifest = manifest
        if hashlib.sha256(manifest).hexdigest() == self._kept["digest"]:
            self._call("content", self._take_content)
        else:
            self._take_content(b"")

    def _take_content(self, content: bytes) -> None:
        keeper = self._keeper
        _, hashes = contents.read_manifest(self._manifest)
        saved = decode(content) if [hashlib.sha256(content).hexdigest()] == hashes else None
        if saved is not None:
            keeper.kernel.counts["checkpoint fetched"] += 1
            keeper.host.fetched[self._kept["digest"]] = saved
            keeper.tell(lambda _: [self._effect])
        elif self._damaged:
            keeper.tell(keeper.core.origin_missing, self._effect.job, "the server's copy is damaged")
        else:
            self._damaged = True
            self.try_again()


class _Download(Exchange):
    """Call of a keeper that fetches a part of a copy."""

    def __init__(self, path: str, token: str, fetching: _Fetch, take: Callable[[bytes], None]) -> None:
        super().__init__(path, token, b"", None)
        self._fetching, self._take = fetching, take
        self._content, self._over = b"", False

    @property
    def scope(self) -> dict[str, Any]:
        return {**super().scope, "method": "GET"}

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            return
        self._content += message["body"]
        if not message.get("more_body", False) and not self._over:
            self._over = True
            self._fetching.answered(self._status, self._content, self._take)

    def expire(self) -> None:
        """Give up a call that the server has not answered completely."""
        if not self._over:
            self._over = True
            self.hang_up()
            self._fetching.answered(200, None, self._take)
