"""Models of the fields ``maxRetries`` and ``checkpoints``: how a trial continues after an attempt."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, model_validator

from nnimgr.config.base import ConfigModel
from nnimgr.config.values import DiskSize, Duration, Natural, Positive
from nnimgr.rules.terms import Limits
from training_services.checkpoint_storage.url import check_url

__all__ = ["USUAL", "Checkpoints", "Retries"]

USUAL = Limits(trial_concurrency=1)  # has the values of fields that are not given


class Retries(ConfigModel):
    """Maximum number of retries of a trial, by the cause of its failure."""

    infrastructure: Natural = USUAL.max_lost_attempts  # retries after a machine or its keeper was lost
    user_error: Natural = USUAL.max_failed_attempts  # retries after the command failed
    out_of_memory: Natural | None = None  # retries after a lack of memory; None: they count as user errors
    preempted: Natural | None = None  # retries after the platform took the host away; None: unlimited


class Checkpoints(ConfigModel):
    """How the saved states of trials are kept."""

    keep_last: Positive = USUAL.checkpoints_kept  # newest checkpoints of each trial whose files are kept
    keep_best: Natural = USUAL.checkpoints_best  # those with the best results are kept, too
    limit: DiskSize | None = None  # if they hold more, those of ended trials are deleted
    # which checkpoint of each trial is copied from its machine to the server: the newest, or none
    keep: Literal["newest", "none"] = "newest"
    # URL of a storage that gets the server's copies, too
    storage: Annotated[str, AfterValidator(check_url)] | None = None
    save_within: Duration = "30s"  # time that a trial has to save its state before it is paused

    @model_validator(mode="after")
    def _copied(self) -> Self:
        if self.storage is not None and self.keep == "none":
            raise ValueError("'storage' gets the server's copies, but 'keep: none' makes none; leave one out")
        return self
