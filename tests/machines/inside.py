"""The first process of a machine: sets its file systems up, then only reaps and waits for the tests' end.

It runs in mount, process and network namespaces of its own; when it goes, all that runs there goes, and it
goes when its standard input is closed: whoever made the machine is gone then, however that came about. Run as
a script: its one argument is JSON, {"name", "tmpfs": [path], "hidden": [path], "directories": [path],
"binds": [[source, target]]}, done in this order; what is to be hidden need not be there.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys


def main() -> None:
    scene = json.loads(sys.argv[1])
    socket.sethostname(scene["name"])
    for path in scene["tmpfs"] + scene["hidden"]:
        if path in scene["tmpfs"] or os.path.isdir(path):
            subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "none", path], check=True)
    for path in scene["directories"]:
        os.makedirs(path, exist_ok=True)
    for source, target in scene["binds"]:
        subprocess.run(["mount", "--bind", source, target], check=True)
    for path in ("/tmp", "/dev/shm"):
        os.chmod(path, 0o1777)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # orphans that end leave no zombie
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.write(1, b"r")
    os.close(1)
    while os.read(0, 1):
        pass


if __name__ == "__main__":
    main()
