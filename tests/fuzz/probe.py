"""A process that asks a server for a sign of life all the time, and reports when none comes for long.

    python -m tests.fuzz.probe PORT PID

A line of JSON for each late answer: when it was asked for (on the steady clock), how long it took, and how
much processor time the server used meanwhile. An answer that is late without that was kept waiting by other
processes of the machine. It ends with its standard input.
"""

from __future__ import annotations

import http.client
import json
import os
import select
import sys
import time
from pathlib import Path

LATE_S = 0.1
_EVERY_S = 0.01


def processor_s(pid: int) -> float:
    """Processor time that a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main(port: int, pid: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    while not select.select([sys.stdin], [], [], _EVERY_S)[0]:
        used, asked_at = processor_s(pid), time.monotonic()
        connection.request("GET", "/healthz")
        connection.getresponse().read()
        took_s = time.monotonic() - asked_at
        if took_s > LATE_S:
            late = {"at": asked_at, "took_s": took_s, "used_s": processor_s(pid) - used}
            sys.stdout.write(json.dumps(late) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
