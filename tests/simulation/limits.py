"""The product's bounds made so narrow that a short life meets them all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

from nnimgr.core.running import mailbox
from tests.simulation.kernel import Kernel
from training_services import keeper_hub, keeper_link, keeper_service
from trial_keeper import reports, wire


@contextmanager
def narrow(kernel: Kernel) -> Iterator[None]:
    """For one life, and only in every other seed."""
    with ExitStack() as stack:
        if kernel.random.random() < 0.5:
            kernel.say("world", "the bounds are narrow")
            for owner, name, value in (
                (wire, "MAX_BYTES", 400),
                (wire, "MAX_EVENTS", 3),
                (reports, "_READS", 2),
                (keeper_link, "MAX_COMMANDS", 1),
                (keeper_link, "MAX_UNTOLD", 2),
                (keeper_hub, "MAX_BACKLOG", 3),
                (keeper_service, "MAX_BACKLOG", 3),
                (mailbox, "MOST_PATIENT", 3),
                (mailbox, "MAILBOX_SIZE", 6),
            ):
                stack.enter_context(patch.object(owner, name, value))
        yield
