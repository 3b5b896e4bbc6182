"""What all hosts of algorithms under test share: a channel that keeps messages, and calls of test objects."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from nnimgr.dispatcher.calls import Calls, Doomed
from nnimgr.dispatcher.channel import Channel, Meanwhile
from nnimgr.dispatcher.messages import Failed, FromChild, Start
from nnimgr.testing.record import EXPERIMENT

__all__ = ["Heard", "Hosted", "Made", "start_message"]

T = TypeVar("T")


class Heard(Channel):
    """Receiver of the algorithm's messages, which keeps them for the test, without queue and watchdog."""

    def __init__(self) -> None:
        self.messages: list[FromChild] = []
        self.failures: list[str] = []  # errors in calls that restore the past, which send no message

    @property
    def waiting(self) -> bool:
        return False

    def send(self, message: FromChild) -> None:
        self.messages.append(message)

    @property
    def in_call(self) -> bool:
        return False

    @contextmanager
    def calling(self, name: str, *, meanwhile: Meanwhile | None = None) -> Iterator[None]:
        yield


class Made(Calls):
    """Caller of the algorithm under test. The test's function ``make`` constructs the algorithm."""

    def __init__(self, heard: Heard, role: str, make: Callable[[], Any], *, builtin: bool) -> None:
        super().__init__(heard, role)
        self._heard, self._make, self._builtin = heard, make, builtin

    @contextmanager
    def collect(self) -> Iterator[list[str]]:
        with super().collect() as failures:
            yield failures
        self._heard.failures += failures

    def build(self, start: Start) -> tuple[Any, bool]:
        return self.must("constructor", self._make, hopeless=True), self._builtin


def start_message(
    role: str,
    database: Path,
    space: Mapping[str, Any],
    *,
    rebuild_to: int,
    since: int = 0,
    resources: Mapping[str, float] | None = None,
) -> Start:
    """Return the first message to an algorithm under test. ``database``: the experiment's past."""
    return Start(
        role=role,
        name=None,
        class_name="the.Algorithm",
        code_directory=None,
        class_args={},
        search_space=space,
        experiment_id=EXPERIMENT,
        database=str(database),
        rebuild_to=rebuild_to,
        checkpoint_directory="",
        seed=1,
        since=since,
        resources=resources or {},
    )


class Hosted:
    """Base of the experiments with an algorithm under test. ``heard`` has the algorithm's messages."""

    def __init__(self) -> None:
        self.heard = Heard()

    def do(self, act: Callable[[], T]) -> T:
        """Run ``act``. Convert an exception of the algorithm to AssertionError."""
        try:
            found = act()
        except Doomed:
            raise AssertionError(self.complaints[-1]) from None
        assert not self.complaints, self.complaints[0]
        return found

    @property
    def complaints(self) -> list[str]:
        failed = [message for message in self.heard.messages if isinstance(message, Failed)]
        return [f"{message.sentence}\n{message.traceback}" for message in failed] + self.heard.failures
