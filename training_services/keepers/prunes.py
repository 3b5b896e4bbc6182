"""Orders to one keeper to delete checkpoints, which answers repeat until the keeper has carried them out."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from operator import itemgetter
from typing import Any

from training_services.base import CheckpointsDeleted, CheckpointsPruned, JobEvent, KnownKeeper
from training_services.job_ids import trial_of_job
from training_services.keepers.host import attempt_folder

__all__ = ["Prunes"]

MAX_ORDERS = 500  # most orders in one answer
MAX_UNREPORTED = 50  # number of facts after which the core is told that the keeper has carried them out


class Prunes:
    """Orders that the keeper has not carried out, or not confirmed.

    An order has the number of the fact that allows it: the keeper's first CheckpointsPruned is number 1.
    """

    def __init__(self, known: KnownKeeper) -> None:
        self._keeper_id = known.keeper_id
        self._last = known.prunes
        self._orders = {
            fact.job_id: (number, fact) for number, fact in sorted(known.unpruned, key=itemgetter(0))
        }
        self._reported = 0  # number up to which the core knows that all is deleted

    def order(self, fact: CheckpointsPruned) -> None:
        """Order to delete what this committed fact allows."""
        self._last += 1
        _, earlier = self._orders.pop(fact.job_id, (0, None))  # so that the orders stay sorted by number
        self._orders[fact.job_id] = self._last, fact.after(earlier)

    def confirm(self, number: int) -> list[JobEvent]:
        """Drop the orders up to this number, which the keeper has carried out. Return events for the core."""
        number = min(number, self._last)
        while self._orders:
            job_id, (of, _) = next(iter(self._orders.items()))
            if of > number:
                break
            del self._orders[job_id]
        if number < self._reported + MAX_UNREPORTED:
            return []
        self._reported = number
        return [CheckpointsDeleted(keeper_id=self._keeper_id, prunes=number)]

    def outgoing(self) -> Mapping[str, Any]:
        """Return the fields ``prunes`` and ``prune`` of an answer."""
        orders = list(islice(self._orders.values(), MAX_ORDERS))
        return {
            "prunes": [
                ("/".join(attempt_folder(*trial_of_job(fact.job_id))), fact.up_to, fact.keep)
                for _, fact in orders
            ],
            "prune": orders[-1][0] if orders else 0,
        }
