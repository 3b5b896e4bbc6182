"""Loads a function or class that was sent to its trial by value (``ship="pickle"`` of ``nnimgr.tune``).

The file has one line of JSON about the versions with which the pickle was made. They are compared before the
pickle is loaded, because a pickle of other versions may fail anywhere, or load something else.
"""

from __future__ import annotations

import json
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator

__all__ = ["OtherVersions", "load"]


class OtherVersions(Exception):
    """Error: this trial does not have the versions with which the function was pickled."""


def load(file: str) -> Any:
    """Return the function or class in the file. Raise OtherVersions."""
    import pickle

    with open(file, "rb") as opened:
        header = json.loads(opened.readline().decode())
        content = opened.read()
    different = "; ".join(_differences(header))
    if different:
        raise OtherVersions(
            "{} was pickled with other versions: {}. Give the trials the same versions, or put the function "
            'in a .py file and leave out ship="pickle".'.format(header["name"], different)
        )
    # cloudpickle's files are beside the pickle, so its version is that of the pickle.
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(file)), header["cloudpickle"]))
    for name, text in header.get("sources", {}).items():  # earlier versions have written none
        _show_lines(name, text)
    return pickle.loads(content)  # noqa: S301  the user's own function, from the user's own experiment


def _show_lines(name: str, text: str) -> None:
    """Let tracebacks show the lines of a file, which may not exist here."""
    import linecache

    linecache.cache[name] = (len(text), None, text.splitlines(True), name)


def _differences(header: dict[str, Any]) -> Iterator[str]:
    """Yield a part of a sentence for each version that differs from that in the header."""
    here = ".".join(map(str, sys.version_info[:3]))
    if header["python"].split(".")[:2] != here.split(".")[:2]:
        yield "Python {} there, and {} here ({})".format(header["python"], here, sys.executable)
        return  # the libraries of another interpreter say nothing
    if not header["libraries"]:
        return
    from importlib import metadata

    for library, version in header["libraries"].items():
        try:
            found = metadata.version(library)
        except metadata.PackageNotFoundError:
            yield f"{library} {version} there, and not installed here"
            continue
        if found != version:
            yield f"{library} {version} there, and {found} here"
