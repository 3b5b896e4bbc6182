"""Model of ``notify``: whom to notify of what."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, SecretStr, model_validator
from pydantic.alias_generators import to_camel

from training_services.units import parse_duration

__all__ = ["Event", "NotificationConfig"]


class Event(StrEnum):
    """What a user can be notified of."""

    DONE = "done"  # the experiment is DONE
    ERROR = "error"  # it ended by an error, or because its first trials all failed alike
    BEST = "best"  # a trial has a better result than all before
    IDLE = "idle"  # nothing has happened for a while


def _duration(value: Any) -> str | int:
    parse_duration(value)
    return value  # type: ignore[no-any-return]


class NotificationConfig(BaseModel):
    """A receiver: a webhook, which gets a JSON object by POST, or a shell command of the server's machine."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, alias_generator=to_camel)

    events: list[Annotated[Event, Field(strict=False)]] = Field(
        default_factory=lambda: [Event.DONE, Event.ERROR], min_length=1
    )
    webhook: SecretStr | None = None
    command: str | None = None
    idle_after: Annotated[str | int, PlainValidator(_duration)] = "30m"  # kept as the user wrote it

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
        """Seconds without any event after which the experiment is idle."""
        return parse_duration(self.idle_after).total_seconds()
