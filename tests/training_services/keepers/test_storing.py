"""Transfers of copies to a storage: retries, restarts, the end of the experiment, and the way back."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest

from tests.training_services.checkpoint_storage.copying import JOB, keep, stored
from tests.training_services.checkpoint_storage.fake_files import FakeFiles
from training_services.base import CheckpointLost, CheckpointStored, JobEvent
from training_services.checkpoint_store import CheckpointStore
from training_services.keepers import storing
from training_services.keepers.storing import Storing
from trial_keeper.machine.disk import remove

URL = "s3://bucket/prefix"


class GatedFiles(FakeFiles):
    """Storage whose transfers wait until the gate is open."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.gate.set()
        self.waiting: set[str] = set()  # copies whose transfers wait, or have waited

    def put(self, name: str, source: Path) -> None:
        if not self.gate.is_set():
            self.waiting.add(name.rsplit("/files/")[0])
            assert self.gate.wait(60)
        super().put(name, source)


class Site:
    """Experiment whose servers put copies into one storage, one after the other."""

    def __init__(self, directory: Path) -> None:
        self.store = CheckpointStore(directory)
        self.files = GatedFiles()
        self.events: list[JobEvent] = []
        self._arrived = asyncio.Event()
        self.servers: list[Storing] = []

    def _put(self, events: Sequence[JobEvent]) -> None:
        self.events += events
        self._arrived.set()

    def server(self, *numbers: int) -> Storing:
        """Return what a new server uses. ``numbers``: the copies that the facts name."""
        made = Storing("exp", self.files, self.store, url=URL, put=self._put)
        made.begin([(JOB, number) for number in numbers])
        self.servers.append(made)
        return made

    async def event(self, event: JobEvent) -> None:
        """Wait for an event."""
        async with asyncio.timeout(60):
            while event not in self.events:
                self._arrived.clear()
                await self._arrived.wait()


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    made = Site(tmp_path)
    yield made
    made.files.gate.set()
    for server in made.servers:
        await server.close()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storing, "PAUSES_S", (0.01, 0.02))


def is_stored(number: int) -> CheckpointStored:
    return CheckpointStored(job_id=JOB, number=number)


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 (a thread changes it)
            await asyncio.sleep(0.01)


async def test_a_copy_is_stored_and_reported(site: Site) -> None:
    keep(site.store, 1)
    server = site.server()
    server.add((JOB, 1))
    await site.event(is_stored(1))
    assert list(site.files.content) == stored(1)
    assert await server.drain() is None and server.notices == {}


async def test_a_copy_that_is_not_needed_any_more_is_removed(site: Site) -> None:
    for number in (1, 2, 3):
        keep(site.store, number)
    server = site.server(1, 2, 3)
    assert await server.drain() is None
    server.remove(JOB, 2, keep=[1])
    assert await server.drain() is None
    assert sorted(site.files.content) == sorted(stored(1, 3))


async def test_failed_transfers_are_tried_again_and_shown(site: Site, quick: None) -> None:
    keep(site.store, 1)
    site.files.broken = "Access Denied"
    server = site.server()
    server.add((JOB, 1))
    await until(lambda: server.notices)
    sentence = f"a transfer of checkpoints to {URL} has failed and is tried again: Access Denied"
    assert server.notices == {"checkpoints.storage": sentence}
    site.files.broken = None
    await site.event(is_stored(1))
    assert await server.drain() is None and server.notices == {}


async def test_one_copy_that_fails_does_not_hold_up_others(site: Site, quick: None) -> None:
    site.files.breaks_at = "1-1/"
    for number in (1, 2, 3, 4):
        keep(site.store, number)
    server = site.server(1, 2, 3, 4)
    await site.event(is_stored(4))
    assert "1-1/ was refused" in server.notices["checkpoints.storage"]
    site.files.breaks_at = None
    await site.event(is_stored(1))


async def test_at_most_two_copies_are_transferred_at_once(site: Site) -> None:
    for number in (1, 2, 3, 4):
        keep(site.store, number)
    site.files.gate.clear()
    server = site.server(1, 2, 3, 4)
    await until(lambda: len(site.files.waiting) == 2)
    assert site.files.waiting == {"aaaaa/1-1", "aaaaa/1-2"}
    site.files.gate.set()
    assert await server.drain() is None
    assert len(site.events) == 4


async def test_a_copy_that_is_pruned_during_its_transfer_is_removed(site: Site) -> None:
    keep(site.store, 1)
    site.files.gate.clear()
    server = site.server(1)
    await until(lambda: site.files.waiting)
    server.remove(JOB, 1, keep=[])
    site.files.gate.set()
    assert await server.drain() is None
    assert site.files.content == {} and site.events == []


async def test_the_next_server_continues_before_the_manifest(site: Site, quick: None) -> None:
    keep(site.store, 1)
    site.files.breaks_at = "manifest"
    first = site.server(1)
    await until(lambda: first.notices)
    await first.close()
    site.files.breaks_at = None
    assert sorted(site.files.content) == sorted(stored(1)[:-1])
    second = site.server(1)
    await site.event(is_stored(1))
    assert await second.drain() is None
    assert sorted(site.files.content) == sorted(stored(1))


async def test_the_next_server_removes_what_no_fact_names(site: Site) -> None:
    for number in (1, 2):
        keep(site.store, number)
    assert await site.server(1, 2).drain() is None
    site.files.content["aaaaa/readme"] = b"a file of somebody else"
    site.files.put_names.clear()
    second = site.server(2)
    assert await second.drain() is None
    assert sorted(site.files.content) == sorted([*stored(2), "aaaaa/readme"])
    assert site.files.put_names == []
    assert site.events.count(is_stored(2)) == 2  # the fact may not have been recorded


async def test_a_copy_that_the_disk_has_lost_before_its_transfer_is_lost(site: Site) -> None:
    site.server(1)
    await until(lambda: site.events)
    (lost,) = site.events
    assert isinstance(lost, CheckpointLost) and lost.keeper_id is None
    assert lost.reason.startswith("the server's copy is missing or damaged: ")


async def test_a_lost_copy_that_was_made_again_replaces_the_stored_one(site: Site) -> None:
    keep(site.store, 1)
    server = site.server(1)
    assert await server.drain() is None
    site.files.content["aaaaa/1-1/files/a"] = b"wrong"
    site.events.clear()
    server.remove(JOB, 1, keep=[])  # the fact that the copy is lost
    server.add((JOB, 1))
    await site.event(is_stored(1))
    assert site.files.content["aaaaa/1-1/files/a"] == b"first"


async def test_the_end_waits_for_a_limited_time_and_says_what_is_missing(site: Site) -> None:
    for number in (1, 2):
        keep(site.store, number)
    server = site.server(1)
    assert await server.drain() is None
    site.files.gate.clear()
    server.add((JOB, 2))
    sentence = await server.drain(0.01)
    assert sentence == (
        f"1 copy of a checkpoint could not be put into {URL} within 0.01 s: the transfer takes longer"
    )
    site.files.gate.set()


async def test_the_end_tries_failed_transfers_at_once(site: Site) -> None:
    keep(site.store, 1)
    site.files.broken = "Access Denied"
    server = site.server(1)
    await until(lambda: server.notices)
    assert "Access Denied" in str(await server.drain(0.01))
    site.files.broken = None
    assert await server.drain() is None


async def test_a_closed_server_does_not_finish_a_transfer(site: Site) -> None:
    keep(site.store, 1)
    site.files.gate.clear()
    server = site.server(1)
    await until(lambda: site.files.waiting)
    closing = asyncio.create_task(server.close())
    await asyncio.sleep(0)
    site.files.gate.set()
    await closing
    assert not any("manifest" in name for name in site.files.content) and site.events == []


async def test_a_driver_that_hangs_does_not_hold_up_the_end(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storing, "END_S", 0.01)
    keep(site.store, 1)
    site.files.gate.clear()
    server = site.server(1)
    await until(lambda: site.files.waiting)
    await server.close()
    assert not site.files.gate.is_set() and site.files.content == {}


async def test_a_lost_copy_is_provided_again(site: Site) -> None:
    keep(site.store, 1)
    server = site.server(1)
    assert await server.drain() is None
    assert await server.provide(JOB, 1) is None
    remove(str(site.store.path(JOB, 1).parent))
    assert await server.provide(JOB, 1) is None
    site.store.check(JOB, 1)


async def test_a_copy_that_cannot_be_fetched_now_has_to_be_asked_for_again(site: Site) -> None:
    keep(site.store, 1)
    server = site.server(1)
    assert await server.drain() is None
    remove(str(site.store.path(JOB, 1)))
    site.files.broken = "Access Denied"
    assert await server.provide(JOB, 1) == f"the server cannot fetch its copy from {URL}: Access Denied"
    site.files.broken = None
    assert await server.provide(JOB, 1) is None
    site.store.check(JOB, 1)


async def test_a_long_transfer_is_not_waited_for(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(site.store, 1)
    server = site.server(1)
    assert await server.drain() is None
    gate, check = threading.Event(), CheckpointStore.check

    def slowly(store: CheckpointStore, job_id: str, number: int) -> None:
        assert gate.wait(60)
        check(store, job_id, number)

    monkeypatch.setattr(CheckpointStore, "check", slowly)
    monkeypatch.setattr(storing, "PROVIDE_S", 0.01)
    assert await server.provide(JOB, 1) == f"the server checks its copy, or fetches it from {URL}"
    monkeypatch.setattr(storing, "PROVIDE_S", 60)
    gate.set()
    assert await server.provide(JOB, 1) is None


async def test_a_copy_that_the_storage_lacks_is_left_as_it_is(site: Site) -> None:
    server = site.server()
    assert await server.provide(JOB, 1) is None
