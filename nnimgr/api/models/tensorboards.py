"""Requests and answers about TensorBoards."""

from __future__ import annotations

from typing import Annotated

from pydantic import AwareDatetime, Field, StringConstraints

from nnimgr.api.models.base import First, Model, Request
from nnimgr.tensorboard.tasks import Status

_TrialName = Annotated[str, StringConstraints(max_length=16)]


class StartTensorBoard(Request):
    trial_ids: Annotated[list[_TrialName], First] | None = Field(
        None,
        description="trials to show; null: all that have been started",
        min_length=1,
        max_length=1000,
    )


class TensorBoard(Model):
    """TensorBoard of an experiment, which runs until it is stopped or the server ends."""

    id: str
    status: Status
    message: str | None = Field(description="what is wrong with the TensorBoard; null: nothing")
    trial_ids: list[str]
    folders: list[str] = Field(description="folders of event files, in the order of trialIds")
    path: str = Field(description="path of the TensorBoard's page on this server")
    pid: int | None
    started_at: AwareDatetime


class RunningTensorBoards(Model):
    tensorboards: list[TensorBoard]
    now: str = Field(description="current step of starting another TensorBoard; empty: none is being started")
