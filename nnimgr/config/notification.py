"""Model of the field ``notify``: who is notified, and of which events."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator
from pydantic.alias_generators import to_camel

from nnimgr.config.values import Duration
from training_services.units import parse_duration

__all__ = ["Event", "NotificationConfig"]


class Event(StrEnum):
    """Kind of event about which a user can be notified."""

    DONE = "done"  # the experiment is DONE
    ERROR = "error"  # the experiment has ended with an error, or because its first trials all failed alike
    BEST = "best"  # a trial has a better result than all trials before
    IDLE = "idle"  # no event has happened for some time


class NotificationConfig(BaseModel):
    """Receiver of notifications: a webhook that gets a JSON object by POST, or a shell command.

    The command runs on the server's machine.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, alias_generator=to_camel)

    events: list[Annotated[Event, Field(strict=False)]] = Field(
        default_factory=lambda: [Event.DONE, Event.ERROR], min_length=1
    )
    webhook: SecretStr | None = None
    command: str | None = None
    # The value is kept as the user wrote it, such as "30m".
    idle_after: Duration = "30m"

    @model_validator(mode="after")
    def _receiver(self) -> Self:
        if (self.webhook is None) == (self.command is None):
            raise ValueError("give either 'webhook' or 'command'")
        if self.webhook is not None:
            address = self.webhook.get_secret_value()
            if not address.startswith(("https://", "http://", "${")):
                raise ValueError("'webhook' must be an address that begins with https:// or http://")
        return self

    @property
    def idle_s(self) -> float:
        """Seconds without any event after which the experiment counts as idle."""
        return parse_duration(self.idle_after).total_seconds()
