"""Lines that are broken to the width of a terminal, and the commands in them, which stay whole."""

from __future__ import annotations

import io

import pytest

from nnimgr.client.lines import fitted, wrapped

STOP = "nnictl stop an-experiment-with-a-long-name-1"


@pytest.mark.parametrize(
    "text",
    [
        f"The experiment continues. To stop it: {STOP}. All of its trials end, and their results stay.",
        f"To stop it: {STOP}; its trials end, and all of their results stay where they are now",
        f'  Repeat with the option, after the trials have ended: "{STOP}"',
        f"  To stop the experiment and all of its trials, and to keep all of their results: {STOP}",
    ],
)
def test_a_command_is_not_broken_and_ends_with_its_sentence(text: str) -> None:
    lines = wrapped(text, 60).splitlines()
    assert max(map(len, lines)) <= 60 and any(STOP in line for line in lines)


def test_a_command_that_is_too_long_stays_whole() -> None:
    command = f"{STOP} --save --port 8081"
    assert wrapped(command, 60) == command


def test_what_a_trial_prints_does_not_control_the_terminal() -> None:
    stream = io.StringIO()
    assert fitted(stream, "a\x1b[31m\u202eb\x00\r\n\tü") == "a?[31m?b??\n\tü"
    assert fitted(stream, "plain\n\tü") == "plain\n\tü"
