from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType

import pytest
import uvloop

from training_services.machines.process import WatchedProcess, launch, lock_holder

ENVIRON = MappingProxyType(dict(os.environ))


@pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_launched_process_has_its_own_session_and_leaves_no_zombie(
    loop_factory: Callable[[], asyncio.AbstractEventLoop], tmp_path: Path
) -> None:
    output = tmp_path / "output"
    script = "import time; time.sleep(1000)"

    async def scenario() -> None:
        async with asyncio.timeout(20):
            process = await launch([sys.executable, "-c", script], environ=ENVIRON, output=output)
            assert process is not None
            assert os.getsid(process.pid) == process.pid
            process.send(signal.SIGKILL)
            await process.ended()
            await process.ended()
            process.close()
            assert f"{process.pid}" not in os.listdir("/proc")

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(scenario())


async def test_the_output_is_kept(tmp_path: Path) -> None:
    output = tmp_path / "output"
    output.write_text("before\n")
    command = [sys.executable, "-c", "print(input.__name__, flush=True); input()"]
    process = await launch(command, environ=ENVIRON, output=output)
    assert process is not None
    await process.ended()
    process.close()
    text = output.read_text()
    assert text.startswith("before\ninput\n") and "EOFError" in text


async def test_what_cannot_be_started_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="/nowhere"):
        await launch(["/nowhere"], environ=ENVIRON, output=tmp_path / "output")
    with pytest.raises(FileNotFoundError, match="missing/output"):
        await launch(["/bin/true"], environ=ENVIRON, output=tmp_path / "missing" / "output")


async def test_who_holds_a_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert lock_holder(path) is None
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR)
    assert lock_holder(path) is None
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    holder = lock_holder(path)
    assert holder is not None and holder.pid == os.getpid()
    assert holder.arguments()
    holder.close()
    os.close(descriptor)
    assert lock_holder(path) is None


def test_there_is_no_such_process() -> None:
    child = os.posix_spawn("/bin/true", ["true"], {})
    os.waitpid(child, 0)
    with pytest.raises(ProcessLookupError):
        WatchedProcess(child)
