"""Limits of the product, set so low that a short life reaches all of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

from nnimgr.core.running import mailbox
from tests.simulation.kernel import Kernel
from training_services.keepers import commands
from training_services.keepers import hub as keeper_hub
from training_services.keepers import link as keeper_link
from training_services.keepers import prunes as keeper_prunes
from training_services.keepers import service as keeper_service
from trial_keeper import wire
from trial_keeper.core import reports, stops


@contextmanager
def narrow(kernel: Kernel) -> Iterator[None]:
    """Lower the limits for one life, and only in every second seed.

    Keepers always look less often than usual whether a trial has saved its state, because each look costs
    an event.
    """
    with ExitStack() as stack:
        stack.enter_context(patch.object(stops, "SAVE_LOOK_S", 0.25))
        if kernel.random.random() < 0.5:
            kernel.say("world", "the bounds are narrow")
            for owner, name, value in (
                (wire, "MAX_BYTES", 400),
                (wire, "MAX_EVENTS", 3),
                (reports, "_READS", 2),
                (commands, "MAX_COMMANDS", 1),
                (keeper_link, "MAX_UNTOLD", 2),
                (keeper_prunes, "MAX_ORDERS", 2),
                (keeper_prunes, "MAX_UNREPORTED", 2),
                (keeper_hub, "MAX_BACKLOG", 3),
                (keeper_service, "MAX_BACKLOG", 3),
                (mailbox, "MOST_PATIENT", 3),
                (mailbox, "MAILBOX_SIZE", 6),
            ):
                stack.enter_context(patch.object(owner, name, value))
        yield
