"""Finds the name that a user has probably meant, for error messages."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["nearest"]

_BEGINNING = 4  # fewest letters of a word that counts as the beginning of a longer name
_PART = 3  # fewest letters of a word that counts as a part of a longer name
_LONGER = 0.4  # smallest similarity of a longer name


def nearest(word: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """Return the known name that is most similar to ``word``, or None if no name is similar.

    Upper case, underscores and hyphens make no difference. Longer names that begin with the word, with or
    without the "s" of a plural, come first: "maxTrials" finds "maxTrialNumber". Names that only contain the
    word come last. ``cutoff``: smallest similarity, from 0 to 1.
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
    return best(longer, _LONGER) or best(names_by_plain, cutoff) or best(with_word, _LONGER)


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")
