"""A process of another account that listens where a server listened before, and does what it can there."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another account")

_PROGRAM = """
import json, os, socket, sys
sys.path.insert(0, sys.argv[1])
from trial_keeper import wire
kind, place, mark = sys.argv[2:5]
if kind == "unix":
    folder, name = os.path.split(place)
    os.chdir(folder)
os.setgroups([])
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)

def say(word):
    print(word, flush=True)

try:
    if kind == "unix":
        if os.path.lexists(name):
            os.unlink(name)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(name)
        os.chmod(name, 0o666)
    else:
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", int(place)))
    listener.listen()
except PermissionError:
    say("refused")
    sys.exit()
say("listens")

def answered(header, body):
    \"\"\"An answer that the keeper would obey, with a start of a command.\"\"\"
    start = {
        "trial_id": "evil", "attempt": 1, "boot_id": header["boot_id"], "directory": "trials/evil",
        "command": "touch " + mark, "cwd": "/", "environment": {}, "parameter": "{}", "log_cap": 1000,
    }
    return {
        "db_id": header["db_id_seen"], "m_epoch": header["m_epoch_seen"], "instance": header["instance"],
        "acks": {}, "rewind": {}, "done": [], "kill": [], "leave": False, "lease_s": None, "all": False,
        "gpu": False, "reads": [], "cmds": [[header["acked_cmd"] + 1, "start", "exp-evil-1", start]],
    }

while True:
    caller, _ = listener.accept()
    heard = b""
    while b"\\r\\n\\r\\n" not in heard:
        piece = caller.recv(65536)
        if not piece:
            break
        heard += piece
    if not heard:
        say("left")  # the caller has looked, and has said nothing
        continue
    say("heard " + json.dumps(heard.decode("latin-1")))
    head, _, body = heard.partition(b"\\r\\n\\r\\n")
    if b"/sync" not in head.split(b"\\r\\n")[0]:
        continue
    lines = head.lower().split(b"\\r\\n")
    size = next(int(line[15:]) for line in lines if line.startswith(b"content-length:"))
    while len(body) < size:
        body += caller.recv(65536)
    text = json.dumps(answered(*wire.decode_request(body))).encode()
    caller.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\n\\r\\n" % len(text) + text)
"""


class Impostor:
    """``mark``: a file that exists once it has had a command run."""

    def __init__(self, process: subprocess.Popen[bytes], mark: Path) -> None:
        self.process = process
        self.mark = mark

    def word(self, limit_s: float = 30.0) -> str:
        """Return what it says next: "listens" or "refused" first, then "left" or what it has heard."""
        assert self.process.stdout is not None
        readable, _, _ = select.select([self.process.stdout], [], [], limit_s)
        assert readable, "the impostor says nothing"
        return self.process.stdout.readline().decode().strip()

    def words(self) -> list[str]:
        """End it, and return what it has said meanwhile."""
        self.process.kill()
        return self.process.communicate()[0].decode().splitlines()


@contextmanager
def impostor(place: Path | int, mark: Path) -> Iterator[Impostor]:
    """Run one at the path of a Unix socket, or at a port of the loopback address."""
    kind = "unix" if isinstance(place, Path) else "port"
    process = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, str(ROOT), kind, str(place), str(mark)],
        stdout=subprocess.PIPE,
        bufsize=0,
    )
    try:
        yield Impostor(process, mark)
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


@contextmanager
def opened_to_all(*folders: Path) -> Iterator[None]:
    """Let every account write to these folders, as a mistaken chmod would."""
    modes = {folder: folder.stat().st_mode for folder in folders}
    for folder in folders:
        folder.chmod(0o777)
    try:
        yield
    finally:
        for folder, mode in modes.items():
            folder.chmod(mode)
