"""Population based bandits, PB2 (Parker-Holder, Nguyen, Roberts, 2020): PBT that learns from a model which
parameters improve trials most.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from typing import Any

from nnimgr.scheduler import Checkpoint
from nnimgr.schedulers.pbt import Member, PBTScheduler
from nnimgr.schedulers.progress import Progress
from nnimgr.search_space import Numeric, Space

__all__ = ["PB2Scheduler"]

_KEPT = 250  # newest observations from which the model learns
_FEWEST = 4  # with fewer observations, parameters are changed as in PBT


class PB2Scheduler(PBTScheduler):
    """PBT that chooses the numbers among the changed parameters with a model, in place of random changes.

    A Gaussian process, whose older observations count less, predicts how much a trial improves with given
    parameters. The parameters with the highest upper confidence bound are chosen. Choices, and the parameters
    nested in them, keep the donor's values. With fewer than four comparisons, parameters are changed as in
    PBT.
    """

    def __init__(
        self,
        optimize_mode: str = "maximize",
        perturbation_interval: int = 5,
        burn_in: int = 0,
        quantile_fraction: float = 0.25,
        mutations: Mapping[str, Any] | None = None,
        synchronous: bool = False,
        population_size: int | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__(
            optimize_mode,
            perturbation_interval=perturbation_interval,
            burn_in=burn_in,
            quantile_fraction=quantile_fraction,
            mutations=mutations,
            synchronous=synchronous,
            population_size=population_size,
            seed=seed,
        )
        self._seen: deque[Progress] = deque(maxlen=_KEPT)

    def compared(self, member: Member, before: float | None, since: int) -> None:
        loss = member.loss
        if before is None or loss is None or not (math.isfinite(before) and math.isfinite(loss)):
            return
        gain = (before - loss) / (member.mark - since)
        self._seen.append(Progress(since, before, member.trial.parameters, gain))

    def explored(self, member: Member, donor: Member, checkpoint: Checkpoint) -> dict[str, Any] | None:
        space = Space(tuple(each for each in self.space.parameters if isinstance(each[1], Numeric)))
        if len(self._seen) < _FEWEST or not space.parameters:
            return super().explored(member, donor, checkpoint)
        from nnimgr.schedulers.pb2_model import most_promising  # loads numpy

        running = [
            Progress(each.mark, each.loss, each.trial.parameters)
            for each in member.population.members.values()
            if each is not member and each.loss is not None and math.isfinite(each.loss)
        ]
        assert member.next_loss is not None
        return most_promising(
            space,
            self._seen,
            Progress(checkpoint.reports, member.next_loss, donor.trial.parameters),
            running=running,
            allows=self.experiment.feasible,
            seed=self.experiment.generator(f"model/{member.trial.id}").getrandbits(32),
        )
