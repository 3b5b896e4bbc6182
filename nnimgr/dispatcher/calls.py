"""Calls the methods of user code. Each call is watched, and an exception in it becomes a message to the
server.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import TracebackType
from typing import Any, TypeVar

from nnimgr.dispatcher import registry
from nnimgr.dispatcher.channel import OWN_CODE, Channel, Meanwhile
from nnimgr.dispatcher.messages import Failed, Start
from nnimgr.dispatcher.registered import Registered
from nnimgr.spelling import error_text, text_of

__all__ = ["Calls", "Doomed", "short_sentence"]

T = TypeVar("T")

LONGEST_SENTENCE = 500


class Doomed(Exception):
    """Error: user code has failed, so this process must end. The failure was already reported to the
    server.
    """


class Calls:
    """Calls the methods of an algorithm, one at a time."""

    def __init__(self, channel: Channel, role: str) -> None:
        self.channel = channel
        self._role = role
        self._collected: list[str] | None = None

    def attempt(
        self,
        call: str,
        run: Callable[[], T],
        *,
        trial_id: str | None = None,
        meanwhile: Meanwhile | None = None,
    ) -> T | Failed:
        """Call ``run`` and return its result. If ``run`` raises an exception, return the message Failed
        without sending it.

        sys.exit in user code is reported as fatal, and ends the process. ``call``: name of the method, for
        messages. ``meanwhile`` is called with each new message while user code seems to wait.
        """
        try:
            if self.channel.in_call:
                return run()
            with self.channel.calling(call, meanwhile=meanwhile):
                return run()
        except Doomed:
            raise
        except Exception as error:
            sentence = f"the {self._role}'s {call} raised {short_sentence(error_text(error))}"
            return Failed(call=call, sentence=sentence, traceback=_shown(error), trial_id=trial_id)
        except BaseException as error:
            sentence = f"the {self._role} ended its process in {call}: {short_sentence(error_text(error))}"
            self.channel.send(Failed(call=call, sentence=sentence, traceback=_shown(error), fatal=True))
            raise

    def report(self, call: str, run: Callable[[], T], *, trial_id: str | None = None) -> T | Failed:
        """Call ``run`` and return its result.

        If ``run`` raises an exception, return a message about the exception, and send this message to the
        server. Within ``collect``, add the message's text to the list there instead of sending it.
        """
        result = self.attempt(call, run, trial_id=trial_id)
        if isinstance(result, Failed):
            self.complain(result)
        return result

    def complain(self, failed: Failed) -> None:
        """Send a message about a failed call, or collect its sentence (see ``collect``)."""
        if self._collected is None:
            self.channel.send(failed)
        else:
            self._collected.append(failed.sentence)

    @contextmanager
    def collect(self) -> Iterator[list[str]]:
        """Yield a list that collects the sentences of failures inside the ``with`` block, instead of
        sending them.
        """
        collected: list[str] = []
        self._collected = collected
        try:
            yield collected
        finally:
            self._collected = None

    @property
    def collecting(self) -> bool:
        """True while failures are collected instead of sent, because past events are replayed."""
        return self._collected is not None

    def must(
        self,
        call: str,
        run: Callable[[], T],
        *,
        hopeless: bool = False,
        meanwhile: Meanwhile | None = None,
    ) -> T:
        """Call ``run`` and return its result.

        If ``run`` raises an exception, send the message Failed to the server and raise Doomed.

        The message is marked as fatal, and with ``hopeless`` as an error that a restart cannot cure.
        """
        result = self.attempt(call, run, meanwhile=meanwhile)
        if isinstance(result, Failed):
            self.channel.send(replace(result, fatal=True, hopeless=hopeless))
            raise Doomed
        return result

    def build(self, start: Start) -> tuple[Any, bool]:
        """Construct the algorithm. Return it, and whether it is built in."""
        if start.name is None:
            target = start.class_name or ""
            found = self.must(
                "import",
                lambda: registry.load(target, code_directory=start.code_directory),
                hopeless=True,
            )
            return self.must("constructor", lambda: found(**start.class_args), hopeless=True), False
        builtin = self.must("import", lambda: registry.resolve(start.role, start.name or ""), hopeless=True)
        if isinstance(builtin, Registered):
            return self._build_registered(builtin, start), False
        found = self.must("import", lambda: registry.load(builtin.target), hopeless=True)
        arguments = dict(start.class_args)
        if "seed" in builtin.arguments and arguments.get("seed") is None:
            arguments["seed"] = start.seed
        if start.goal and "optimize_mode" in builtin.arguments and arguments.get("optimize_mode") is None:
            arguments["optimize_mode"] = start.goal
        return self.must("constructor", lambda: found(**arguments), hopeless=True), True

    def _build_registered(self, entry: Registered, start: Start) -> Any:
        arguments = {**entry.class_args, **start.class_args}
        if entry.validator is not None:
            validator = self.must("import", lambda: registry.load(entry.validator or ""), hopeless=True)
            self.must("classArgs", lambda: validator().validate_class_args(**arguments), hopeless=True)
        found = self.must("import", lambda: registry.load(entry.class_name), hopeless=True)
        return self.must("constructor", lambda: found(**arguments), hopeless=True)


def short_sentence(text: Any) -> str:
    """Return a text of user code in one line, cut off if it is too long for a sentence."""
    line = " ".join(text_of(text).split())
    return line if len(line) <= LONGEST_SENTENCE else f"{line[: LONGEST_SENTENCE - 3]}..."


def _shown(error: BaseException) -> str:
    """Return the text of an exception's traceback, starting at the first line of user code."""
    import traceback

    trace = error.__traceback__
    while trace is not None and _is_ours(trace):
        trace = trace.tb_next
    return "".join(traceback.format_exception(type(error), error, trace))


def _is_ours(trace: TracebackType) -> bool:
    file = trace.tb_frame.f_code.co_filename
    return file.startswith((OWN_CODE, "<frozen importlib")) or file.endswith(
        os.path.join("importlib", "__init__.py")
    )
