"""Machines listen and connect for ``nnictl doctor``: here, both are this machine."""

from __future__ import annotations

import socket

from trial_keeper.gang_line import FIRST_PORT, PORTS
from trial_keeper.reach import listen, reach

HERE = "127.0.0.1"


def test_whoever_listens_is_reached_by_its_word() -> None:
    one, two = listen(HERE, "one", 30), listen(HERE, "two", 30)
    assert all(FIRST_PORT <= port < FIRST_PORT + PORTS for port in (one, two))
    assert reach([(HERE, one, "one"), (HERE, two, "two")], 5) == [None, None]


def test_another_machine_may_answer() -> None:
    port = listen(HERE, "one", 30)
    assert reach([(HERE, port, "two")], 5) == ["another machine answers there"]


def test_nobody_listens_and_nobody_has_the_name() -> None:
    with socket.create_server((HERE, 0)) as listener:
        port = listener.getsockname()[1]
    refused, unknown = reach([(HERE, port, "one"), ("no-such-host.invalid", port, "one")], 5)
    assert refused == "Connection refused"
    assert unknown


def test_one_that_says_nothing() -> None:
    with socket.create_server((HERE, 0)) as listener:
        assert reach([(HERE, listener.getsockname()[1], "one")], 0.01) == ["Connection timed out"]
