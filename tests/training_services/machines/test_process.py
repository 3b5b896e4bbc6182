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

from training_services.base import ServiceError
from training_services.machines.process import WatchedProcess, launch, lock_holder

ENVIRON = MappingProxyType(dict(os.environ))


@pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_launched_process_is_nobodys_child(
    loop_factory: Callable[[], asyncio.AbstractEventLoop], tmp_path: Path
) -> None:
    output = tmp_path / "output"
    script = "import os, time; print(os.getcwd(), flush=True); time.sleep(1000)"

    async def scenario() -> None:
        async with asyncio.timeout(20):
            process = await launch(
                [sys.executable, "-c", script], environ=ENVIRON, python=sys.executable, output=output
            )
            assert process is not None
            assert _parent(process.pid) != os.getpid()
            assert os.getsid(process.pid) != os.getsid(0)
            process.send(signal.SIGKILL)
            await process.ended()
            await process.ended()
            process.close()

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(scenario())


async def test_the_output_is_kept(tmp_path: Path) -> None:
    output = tmp_path / "output"
    command = [sys.executable, "-c", "import os; print(os.getcwd(), flush=True); 1 / 0"]
    process = await launch(command, environ=ENVIRON, python=sys.executable, output=output)
    if process is not None:
        await process.ended()
        process.close()
    text = output.read_text()
    assert text.startswith("/\n") and "ZeroDivisionError" in text


async def test_an_interpreter_that_is_none_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ServiceError, match="cannot start the process"):
        await launch(["/bin/true"], environ=ENVIRON, python="/bin/false", output=tmp_path / "output")
    with pytest.raises(OSError, match="No such file"):
        await launch(["/bin/true"], environ=ENVIRON, python="/nowhere", output=tmp_path / "output")


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


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
