"""Functions with which NNI's command line reads files, prints messages, and checks processes and ports."""

from __future__ import annotations

import getpass
import json
import os
import socket
import sys
import tempfile
from typing import Any, NoReturn

import yaml

from nni.tools.nnictl.constants import ERROR_INFO, NORMAL_INFO, WARNING_INFO

__all__ = [
    "detect_port",
    "detect_process",
    "generate_temp_dir",
    "get_json_content",
    "get_user",
    "get_yml_content",
    "print_error",
    "print_green",
    "print_normal",
    "print_warning",
    "show",
]

_RED, _GREEN, _YELLOW, _RESET = "\033[31m", "\033[32m", "\033[33m", "\033[39m"


def get_yml_content(file_path: str | os.PathLike[str]) -> Any:
    """Return the content of a YAML file. Print the error and exit with code 1 if it cannot be read."""
    try:
        with open(file_path, encoding="utf-8") as file:
            return yaml.safe_load(file)
    except (OSError, ValueError, yaml.YAMLError) as error:
        _fail(f"{file_path} cannot be read: {error}")


def get_json_content(file_path: str | os.PathLike[str]) -> Any:
    """Return the content of a JSON file.

    Raise OSError if the file cannot be read, and ValueError if it is not JSON.
    """
    with open(file_path, encoding="utf-8") as file:
        return json.load(file)


def show(text: str) -> None:
    """Print a text to standard output."""
    sys.stdout.write(f"{text}\n")


def print_error(*content: Any) -> None:
    """Print a message in red."""
    show(_RED + ERROR_INFO + " ".join(map(str, content)) + _RESET)


def print_green(*content: Any) -> None:
    """Print a message in green."""
    show(_GREEN + " ".join(map(str, content)) + _RESET)


def print_normal(*content: Any) -> None:
    """Print a message."""
    show(" ".join(map(str, (NORMAL_INFO, *content))))


def print_warning(*content: Any) -> None:
    """Print a message in yellow."""
    show(_YELLOW + WARNING_INFO + " ".join(map(str, content)) + _RESET)


def detect_process(pid: Any) -> bool:
    """Return whether a process with this id exists and is not a zombie."""
    if not isinstance(pid, int):
        return False
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def detect_port(port: int | str) -> bool:
    """Return whether a program listens on this port of this machine."""
    try:
        socket.create_connection(("127.0.0.1", int(port)), timeout=5).close()
    except OSError:
        return False
    return True


def get_user() -> str:
    """Return the login name of the user who runs this process."""
    return getpass.getuser()


def generate_temp_dir() -> str:
    """Create an empty temporary directory, and return its path."""
    return tempfile.mkdtemp(prefix="nni-")


def _fail(sentence: str) -> NoReturn:
    print_error(sentence)
    sys.exit(1)
