"""Makes this program read and write names and texts as UTF-8, whatever the locale is.

Names of files and commands come as UTF-8 from the server. In a locale with another encoding, Python could not
write some of their characters, and would read others differently.
"""

from __future__ import annotations

import os
import sys

__all__ = ["use_utf8"]


def use_utf8() -> None:
    """Start this program again in Python's UTF-8 mode, in the same process, if its locale is not UTF-8.

    Call this before the program does anything else. The locale of other programs that it starts is the same
    as before.
    """
    if sys.getfilesystemencoding() == "utf-8" or sys.flags.isolated:
        return
    words = getattr(sys, "orig_argv", None)  # since Python 3.10
    if words is None:
        flags = (("-S", sys.flags.no_site), ("-E", sys.flags.ignore_environment))
        words = [sys.executable, *(flag for flag, given in flags if given), *sys.argv]
    os.execv(sys.executable, [sys.executable, "-X", "utf8", *words[1:]])
