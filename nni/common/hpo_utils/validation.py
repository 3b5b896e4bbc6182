"""Function that checks search spaces."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from nnimgr.search_space import ParameterType, SearchSpaceError, validate

__all__ = ["common_search_space_types", "validate_search_space"]

common_search_space_types = [kind.value for kind in ParameterType]


def validate_search_space(
    search_space: Any, support_types: Iterable[str] | None = None, raise_exception: bool = False
) -> bool:
    """Return whether a search space is valid and uses only the parameter types ``support_types`` (default:
    all of NNI's types; other names are ignored).

    Log the first error, or raise ValueError for it if ``raise_exception`` is set.
    """
    known = common_search_space_types
    wanted = known if support_types is None else support_types
    types = frozenset(ParameterType(kind) for kind in wanted if kind in known)
    try:
        validate(search_space, types=types)
    except SearchSpaceError as error:
        sentence = f"search space: {error.field}: {error}"
        if raise_exception:
            raise ValueError(sentence) from error
        logging.getLogger(__name__).error(sentence)
        return False
    return True
