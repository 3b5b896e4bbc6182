"""Tests of reads through real keepers and a real door, and of limits for a keeper's answers."""

from __future__ import annotations

import asyncio
import json
import resource
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from tests.processes import open_files
from tests.training_services.machines.local_platform import SCRIPTS, LocalPlatform, opened_platform
from tests.trial_keeper.harness import oldest_python, wait_for
from training_services.base import ExperimentContext, JobEnded, JobStarted, ServiceUnavailable
from training_services.keepers import reads as keeper_reads
from training_services.keepers.host import KeeperHost
from training_services.keepers.hub import MAX_READS
from training_services.keepers.reads import ReadStream, receive_read
from training_services.machines.local import LocalConfig, LocalKeeper
from training_services.machines.service import MachineService
from training_services.testing import Behaviour, CoreDouble, TrainingServiceContract
from trial_keeper import wire


class FarKeeper(LocalKeeper):
    """Keeper of this machine whose files are read only through the keeper."""

    read_log = KeeperHost.read_log
    read_file = KeeperHost.read_file
    list_files = KeeperHost.list_files


class FarPlatform(LocalPlatform):
    def make(self) -> MachineService:  # type: ignore[override]
        (self.directory / "contract").mkdir(exist_ok=True)
        context = ExperimentContext(
            experiment_id="contract",
            directory=self.directory / "contract",
            trial_command=". ./$NNI_TRIAL_JOB_ID.sh",
            trial_code_directory=self.code,
            trial_gpu_number=None,
            python=oldest_python() or sys.executable,
            environ=self.environ,
        )
        return MachineService(context, self.tools, [FarKeeper(context, LocalConfig(), self.tools)])

    @property
    def trial(self) -> Path:
        return self.directory / "contract" / "trials" / "aaaa1"


@pytest.fixture
async def platform(tmp_path: Path) -> AsyncIterator[FarPlatform]:
    async with opened_platform(FarPlatform, tmp_path) as platform:
        yield platform


class TestFarService(TrainingServiceContract):
    """Contract of all training services, with ``platform`` from above."""


async def opened(platform: FarPlatform, script: str) -> tuple[CoreDouble, str]:
    """Return a core with one job that has started."""
    core = CoreDouble()
    await core.open(platform.make())
    platform.script("aaaa1", script)
    job_id = core.submit("aaaa1")
    await core.seen(JobStarted, job_id)
    return core, job_id


async def read(core: CoreDouble, job_id: str, path: str) -> bytes:
    assert core.service is not None
    return b"".join([chunk async for chunk in core.service.read_file(job_id, path, keeper_id="local")])


async def test_a_log_is_followed_to_its_end(platform: FarPlatform) -> None:
    core, job_id = await opened(
        platform, 'echo one; read -r word < "$NNI_TRIAL_JOB_ID.gate"; echo $word; echo two >&2'
    )
    assert core.service is not None
    async with aclosing(core.service.read_log(job_id, "stdout", follow=True)) as chunks:  # type: ignore[type-var]
        assert await anext(chunks) == b"one\n"
        await asyncio.to_thread(platform.release, "aaaa1")
        assert b"".join([chunk async for chunk in chunks]) == b"go\n"
    await core.seen(JobEnded, job_id)
    assert await read(core, job_id, "stderr") == b"two\n"
    await core.close(detach=False)


async def test_a_large_file_comes_whole_while_others_are_read_and_trials_go_on(platform: FarPlatform) -> None:
    core, job_id = await opened(
        platform, "cd $NNI_SYS_DIR; head -c 60000000 /dev/urandom > big; mkdir d; cp big d/e"
    )
    await core.seen(JobEnded, job_id)
    platform.behave("bbbb2", Behaviour.REPORTS)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    service = core.service
    assert service is not None

    async def size(path: str) -> int:
        return sum([len(chunk) async for chunk in service.read_file(job_id, path, keeper_id="local")])

    reading = asyncio.gather(size("big"), size("d/e"), size("big"))
    await core.seen(JobEnded, core.submit("bbbb2"))
    assert await reading == [60_000_000] * 3
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 60_000  # KiB
    listing = await service.list_files(job_id, keeper_id="local")
    assert {file.path: file.size for file in listing.files}["d/e"] == 60_000_000
    await core.close(detach=False)


async def test_neither_links_nor_pipes_nor_ways_out_are_read(platform: FarPlatform) -> None:
    core, job_id = await opened(
        platform,
        "cd $NNI_SYS_DIR; ln -s /etc/passwd link; ln -s /etc folder; mkfifo pipe; echo x > plain; "
        "mkdir -p .nnimgr attempt-2/.nni; echo y > attempt-2/theirs; printf '' > $'odd\\xff'",
    )
    await core.seen(JobEnded, job_id)
    for path in ("link", "folder/passwd", "pipe", ".nnimgr", "attempt-2"):
        with pytest.raises(FileNotFoundError):
            await read(core, job_id, path)
    for path in ("../aaaa1/plain", "./plain", "plain/", "/etc/passwd", "a\0b"):
        with pytest.raises(ValueError, match="is not the name of a file"):
            await read(core, job_id, path)
    assert await read(core, job_id, "plain") == b"x\n"
    assert core.service is not None
    names = [file.path for file in (await core.service.list_files(job_id, keeper_id="local")).files]
    assert names == [".nni/metrics", "odd\\xff", "parameter.cfg", "plain", "stderr", "stdout"]
    with pytest.raises(FileNotFoundError):
        await core.service.list_files("contract-zzzz9-1", keeper_id="local")
    await core.close(detach=False)


async def test_a_reader_that_leaves_ends_the_keepers_reading(platform: FarPlatform) -> None:
    core, job_id = await opened(platform, SCRIPTS[Behaviour.SLEEPS].replace("setsid", "echo one; setsid"))
    keeper = platform.keeper()
    assert keeper is not None and core.service is not None
    for _ in range(MAX_READS + 2):
        async with aclosing(core.service.read_log(job_id, "stdout", follow=True)) as chunks:  # type: ignore[type-var]
            assert await anext(chunks) == b"one\n"
    log = str(platform.trial / "stdout")
    await asyncio.to_thread(wait_for, lambda: log not in open_files(keeper.pid), "the keeper to let go of it")
    keeper.close()
    core.cancel(job_id)
    await core.seen(JobEnded, job_id)
    await core.close(detach=False)


async def test_more_readers_than_a_keeper_takes_are_told_so(platform: FarPlatform) -> None:
    core, job_id = await opened(platform, SCRIPTS[Behaviour.SLEEPS].replace("setsid", "echo one; setsid"))
    service = core.service
    assert service is not None
    readers: list[Any] = [service.read_log(job_id, "stdout", follow=True) for _ in range(MAX_READS)]
    for reader in readers:
        assert await anext(reader) == b"one\n"
    with pytest.raises(ServiceUnavailable, match=f"{MAX_READS} files of the machine"):
        await read(core, job_id, "stdout")
    core.cancel(job_id)
    await core.seen(JobEnded, job_id)
    for reader in readers:
        assert [chunk async for chunk in reader] == []
    await core.close(detach=False)


async def test_a_keeper_that_dies_leaves_its_reader_with_a_sentence(platform: FarPlatform) -> None:
    core, job_id = await opened(platform, SCRIPTS[Behaviour.SLEEPS].replace("setsid", "echo one; setsid"))
    service = core.service
    assert service is not None
    async with aclosing(service.read_log(job_id, "stdout", follow=True)) as chunks:  # type: ignore[type-var]
        assert await anext(chunks) == b"one\n"
        await platform.kill_keeper()
        with pytest.raises(ServiceUnavailable, match="keeper local was cut off while it read the file"):
            await anext(chunks)
    assert await read(core, job_id, "stdout") == b"one\n"  # the next read starts from the beginning
    core.cancel(job_id)
    await core.seen(JobEnded, job_id)
    await core.close(detach=False)


async def test_a_keeper_that_hangs_leaves_its_reader_with_a_sentence(
    platform: FarPlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    core, job_id = await opened(platform, SCRIPTS[Behaviour.SLEEPS].replace("setsid", "echo one; setsid"))
    monkeypatch.setattr(keeper_reads, "SILENT_S", 0.2)
    monkeypatch.setattr(keeper_reads, "OPEN_S", 0.2)
    keeper, service = platform.keeper(), core.service
    assert keeper is not None and service is not None
    async with aclosing(service.read_log(job_id, "stdout", follow=True)) as chunks:  # type: ignore[type-var]
        assert await anext(chunks) == b"one\n"
        keeper.send(signal.SIGSTOP)
        with pytest.raises(ServiceUnavailable, match=r"has sent nothing for 0\.2 s"):
            await anext(chunks)
    with pytest.raises(ServiceUnavailable, match=r"has not answered for 0\.2 s"):
        await read(core, job_id, "stdout")
    keeper.send(signal.SIGCONT)
    keeper.close()
    core.cancel(job_id)
    await core.seen(JobEnded, job_id)
    await core.close(detach=False)


# ---- the stream itself ------------------------------------------------------------------------------------


async def received(*bodies: bytes, more: bool = False) -> tuple[bytes, Exception | None, bool]:
    """Return what a reader gets when a call sends these pieces."""
    stream = ReadStream("k")
    assert stream.open() and not stream.open()
    messages = iter([*({"type": "http.request", "body": body, "more_body": True} for body in bodies)])

    async def receive() -> dict[str, Any]:
        last = {"type": "http.disconnect"} if more else {"type": "http.request", "more_body": False}
        return next(messages, last)

    async def take() -> tuple[bytes, Exception | None]:
        content = b""
        try:
            async for chunk in stream.chunks():
                content += chunk
        except (OSError, ValueError, ServiceUnavailable) as error:
            return content, error
        return content, None

    taking = asyncio.create_task(take())
    whole = await receive_read(stream, receive)
    return (*await taking, whole)


async def test_a_stream_may_be_cut_anywhere() -> None:
    text = b"x" * 1000
    sent = wire.read_piece(wire.DATA, text) + wire.read_piece(wire.WORD, b"")
    sent += wire.read_piece(wire.DATA, b"") + wire.read_piece(wire.DATA, b"yz") + wire.read_end()
    for size in (1, 2, 3, 7, 100, 10_000):
        parts = [sent[at : at + size] for at in range(0, len(sent), size)]
        assert await received(*parts) == (text + b"yz", None, True)
    content, error, whole = await received(sent[:-3])
    assert content == text + b"yz" and "was cut off" in str(error) and not whole
    content, error, whole = await received(sent[:500], more=True)
    assert len(content) == 495 and "was cut off" in str(error) and not whole


@pytest.mark.parametrize(
    "body",
    [
        b"?\0\0\0\1x",
        wire.read_piece(wire.WORD, b"word"),
        wire.read_piece(wire.END, b"[]"),
        wire.END + b"\xff\xff\xff\xff",
    ],
)
async def test_what_is_no_stream_ends_with_a_sentence(body: bytes) -> None:
    content, error, _ = await received(body)
    assert content == b"" and str(error) == "keeper k has sent an invalid answer"


async def test_a_listing_that_is_none_ends_with_a_sentence() -> None:
    for line in ("nonsense", "[1]", '["a", "b", "c"]', json.dumps(["a", 1, 1e300])):
        with pytest.raises(ServiceUnavailable, match="list of the files cannot be read"):
            keeper_reads.read_listing(line.encode(), complete=True)
