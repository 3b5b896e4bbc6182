"""Tests whether machines reach each other where members of gangs would: ``nnictl doctor`` asks for it.

Each machine listens on a port of ``gang_line``, and sends a word that the server has chosen to whoever
connects. So a machine that connects knows whether the right machine has answered.
"""

from __future__ import annotations

import errno
import os
import socket
import threading
import time

from trial_keeper.gang_line import listen_anywhere
from trial_keeper.lean import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Sequence

LONGEST = 100  # most bytes of a word


def listen(address: str, word: str, seconds: float) -> int:
    """Listen for this time in a thread, and send the word to whoever connects. Return the port.

    Raise LineError if no port is free.
    """
    listener = listen_anywhere(address)
    threading.Thread(target=_answer, args=(listener, word.encode(), seconds), daemon=True).start()
    return int(listener.getsockname()[1])


def reach(peers: Sequence[tuple[str, int, str]], seconds: float) -> list[str | None]:
    """Connect to all these addresses and ports at the same time. Return for each of them why it cannot be
    reached; None: it sends the word.
    """
    found: list[str | None] = [None] * len(peers)

    def look(number: int) -> None:
        found[number] = _obstacle(*peers[number], seconds)

    looks = [threading.Thread(target=look, args=(number,), daemon=True) for number in range(len(peers))]
    for each in looks:
        each.start()
    for each in looks:
        each.join()
    return found


def _answer(listener: socket.socket, word: bytes, seconds: float) -> None:
    until = time.monotonic() + seconds
    with listener:
        while (left := until - time.monotonic()) > 0:
            listener.settimeout(left)
            try:
                peer, _ = listener.accept()
            except socket.timeout:
                return
            except OSError:  # the one that has connected is gone already
                continue
            with peer:
                try:
                    peer.sendall(word)
                except OSError:
                    continue


def _obstacle(address: str, port: int, word: str, seconds: float) -> str | None:
    try:
        with socket.create_connection((address, port), timeout=seconds) as peer:
            heard = b""
            while len(heard) < LONGEST and (piece := peer.recv(LONGEST)):
                heard += piece
    except socket.timeout:
        return os.strerror(errno.ETIMEDOUT)  # the same words as from the kernel
    except OSError as error:
        return error.strerror or str(error)
    return None if heard == word.encode() else "another machine answers there"
