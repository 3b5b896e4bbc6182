"""Finds the name that a user has probably meant, for error messages, and writes sentences with a capital,
about names that are no text, and texts of user code's objects.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["capital", "error_text", "nearest", "not_utf8", "text_of"]

_BEGINNING = 4  # fewest letters of a word that counts as the beginning of a longer name
_PART = 3  # fewest letters of a word that counts as a part of a longer name
_LONGER = 0.4  # smallest similarity of a longer name
_SHORT = 5  # letters of a short word, which is similar to many names by chance: "value" to "failures"
_IN_NAMES = "@/._0123456789"  # characters that only the names of things contain
_SHORT_CUTOFF = 0.8  # smallest similarity to a short word, unless a typing error is more likely


def nearest(word: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """Return the known name that is most similar to ``word``, or None if no name is similar.

    Upper case, underscores and hyphens make no difference. Longer names that begin with the word, with or
    without the "s" of a plural, come first: "maxTrials" finds "maxTrialNumber". Names that only contain the
    word come last. ``cutoff``: smallest similarity, from 0 to 1. A short word needs a greater similarity, the
    same letters in another order, or the same first letter and the same number of letters.
    """
    import difflib  # imported only for a message, because it would slow the start of every process

    def best(names: Iterable[str], least: float) -> str | None:
        found = difflib.get_close_matches(plain, names, n=1, cutoff=least)
        return names_by_plain[found[0]] if found else None

    plain = _plain(word)
    names_by_plain = {_plain(name): name for name in known}
    if plain in names_by_plain:
        return names_by_plain[plain]
    stem = plain[:-1] if plain.endswith("s") else plain
    longer = [name for name in names_by_plain if len(stem) >= _BEGINNING and name.startswith(stem)]
    with_word = [name for name in names_by_plain if len(stem) >= _PART and stem in name]
    if len(plain) <= _SHORT:
        swapped = [name for name in names_by_plain if sorted(name) == sorted(plain)]
        as_long = [name for name in names_by_plain if len(name) == len(plain) and name[:1] == plain[:1]]
        close = difflib.get_close_matches(plain, names_by_plain, cutoff=max(cutoff, _SHORT_CUTOFF))
        similar = best(swapped, cutoff) or best(dict.fromkeys([*close, *as_long]), cutoff)
    else:
        similar = best(names_by_plain, cutoff)
    return best(longer, _LONGER) or similar or best(with_word, _LONGER)


def capital(sentence: str) -> str:
    """Return a sentence with a capital letter, unless its first word is a name.

    Such names are "maxTrialNumber", "me@host", "gpu1" and "train.py".
    """
    first = sentence.partition(" ")[0].rstrip(".:,;")
    is_name = first != first.lower() or not first.isascii() or any(each in _IN_NAMES for each in first)
    return sentence if is_name else f"{sentence[:1].upper()}{sentence[1:]}"


def text_of(value: object) -> str:
    """Return ``str(value)``. If that fails in user code, return what Python's tracebacks show instead."""
    try:
        return str(value)
    except Exception:
        return f"<{'exception' if isinstance(value, BaseException) else 'object'} str() failed>"


def error_text(error: BaseException) -> str:
    """Return an exception's type and message: "ValueError: too small"; the type alone without a message."""
    text = text_of(error).strip()
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


def not_utf8(directory: str) -> str | None:
    """Return a sentence if the name of a directory is not UTF-8, which no request or database can contain."""
    # imported here: each tuner's process loads this module, but needs none of the keepers' code
    from trial_keeper.machine.untrusted_files import shown_name

    shown = shown_name(directory)
    if shown == directory:
        return None
    return f"the name of the directory {shown} is not valid UTF-8; rename the directory"
