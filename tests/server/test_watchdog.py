"""The watchdog notices a blocked loop and logs where it is blocked."""

from __future__ import annotations

import asyncio
import logging
import threading

import pytest

from nnimgr.server.watchdog import Watchdog


class Listener(logging.Handler):
    """Handler that collects messages. ``heard`` is set by the first message."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []
        self.heard = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())
        self.heard.set()


@pytest.fixture
def listener() -> Listener:
    return Listener()


async def test_a_stall_is_logged_with_its_stack(listener: Listener) -> None:
    logger = logging.getLogger("nnimgr.server.watchdog")
    logger.addHandler(listener)
    try:
        with Watchdog(every_s=0.001, stall_s=0.01):
            stand_still(listener)
            await asyncio.sleep(0)
    finally:
        logger.removeHandler(listener)
    assert "stand_still" in listener.messages[0]
    assert "continues after" in listener.messages[-1]


async def test_a_lively_loop_is_left_alone(listener: Listener) -> None:
    logger = logging.getLogger("nnimgr.server.watchdog")
    logger.addHandler(listener)
    try:
        with Watchdog(every_s=0.001, stall_s=10.0):
            for _ in range(20):
                await asyncio.sleep(0.001)
    finally:
        logger.removeHandler(listener)
    assert listener.messages == []


def stand_still(listener: Listener) -> None:
    assert listener.heard.wait(10.0)
