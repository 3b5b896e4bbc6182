"""Another account of the machine takes the server's places after its death: nothing is sent to it."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from nnimgr.client.errors import ClientError, ServerGone
from nnimgr.client.servers import connect
from tests.e2e.scene import eventually, scene
from tests.impostor import NOBODY, as_root, impostor, opened_to_all
from tests.server.harness import serving

pytestmark = as_root
HELD = """
import pathlib, time
import nni
nni.get_next_parameter()
while not pathlib.Path("go").exists():
    time.sleep(0.02)
nni.report_final_result(1)
"""


def test_a_keeper_tells_an_impostor_nothing_and_starts_nothing_for_it(tmp_path: Path) -> None:
    with scene(tmp_path) as here:
        here.create(here.script(HELD))
        eventually(lambda: [t for t in here.trials() if t["status"] == "RUNNING"], "the trial")
        keepers_call = here.server.home.private_path / f"keepers-{here.server.port}.sock"
        log = here.folder / "keeper" / "keeper.log"
        here.server.end(signal.SIGKILL)
        mark = tmp_path / "mark"
        with impostor(keepers_call, mark) as shut_out:
            assert shut_out.word() == "refused"  # by the folder's mode
        with (
            impostor(here.server.port, mark) as at_port,
            opened_to_all(tmp_path, keepers_call.parent),
            impostor(keepers_call, mark) as at_socket,
        ):
            assert (at_port.word(), at_socket.word()) == ("listens", "listens")
            for _ in range(3):
                assert at_socket.word() == "left"
            assert f"user {NOBODY} listens there" in log.read_text()
            assert set(at_socket.words()) <= {"left"}
            assert at_port.words() == []
        assert not mark.exists()
        with serving(tmp_path, port=here.server.port) as again:
            here.server = again
            (tmp_path / "go").touch()
            eventually(lambda: here.profile()["status"] == "DONE", "the end")
            (ended,) = here.trials()
            assert (ended["status"], ended["attempt"]) == ("SUCCEEDED", 1)


def test_nnictl_sends_its_token_to_nobody_else(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        connect(server.home, server.port)
        path = server.home.server_socket_path(server.port)
        with opened_to_all(tmp_path, path.parent), impostor(path, tmp_path / "mark") as at_socket:
            assert at_socket.word() == "listens"
            with pytest.raises(ServerGone, match=f"user {NOBODY} listens there"):
                connect(server.home, server.port)
            assert set(at_socket.words()) == {"left"}
        server.end(signal.SIGKILL)
        with impostor(server.port, tmp_path / "mark") as at_port:
            assert at_port.word() == "listens"
            with pytest.raises(ClientError, match=f"Port {server.port} is not idle"):
                connect(server.home, server.port)
            assert at_port.words() == []


@pytest.mark.parametrize("name", ["keepers", "server"])
def test_another_account_is_not_answered_at_the_servers_sockets(tmp_path: Path, name: str) -> None:
    ask = (
        "import os, socket, sys\nos.chdir(sys.argv[1])\nos.setresuid(65534, 65534, 65534)\n"
        "caller = socket.socket(socket.AF_UNIX)\ncaller.connect(sys.argv[2])\n"
        "try:\n    caller.sendall(b'GET /healthz HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n')\n"
        "    print(caller.recv(100))\nexcept (BrokenPipeError, ConnectionResetError):\n    print(b'')\n"
    )
    with scene(tmp_path) as here:
        here.create("true")
        here.done()  # the sockets have their modes by now
        (path,) = here.server.home.private_path.glob(f"{name}-*.sock")
        folder = tmp_path / "open"  # the server closes its own folder again whenever it writes there
        folder.mkdir()
        folder.chmod(0o777)
        (folder / path.name).hardlink_to(path)
        path.chmod(0o666)
        said = subprocess.run(
            [sys.executable, "-c", ask, str(folder), path.name], capture_output=True, text=True
        )
        assert (said.stdout, said.returncode) == ("b''\n", 0), said.stderr
