"""NNI's helper functions for algorithms and trials."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from nni import parameter_expressions
from nni._merge import merge_parameter
from nnimgr.algorithm import ClassArgsValidator, OptimizeMode, extract_scalar_history, extract_scalar_reward

__all__ = [
    "ClassArgsValidator",
    "MetricType",
    "NodeType",
    "OptimizeMode",
    "convert_dict2tuple",
    "extract_scalar_history",
    "extract_scalar_reward",
    "json2parameter",
    "json2space",
    "merge_parameter",
    "split_index",
]


class NodeType:
    """Keys with a special meaning in search spaces and in parameter sets."""

    ROOT = "root"
    TYPE = "_type"
    VALUE = "_value"
    INDEX = "_index"
    NAME = "_name"


class MetricType:
    """Types of the messages that a trial sends to the experiment."""

    FINAL = "FINAL"
    PERIODICAL = "PERIODICAL"
    REQUEST_PARAMETER = "REQUEST_PARAMETER"


# ---- parameter sets with indices: a choice of option i is {"_index": i, "_value": option} ------------------


def split_index(params: Any) -> Any:
    """Return a parameter set without indices: each choice ``{"_index": i, "_value": option}`` becomes
    ``option``.
    """
    if not isinstance(params, dict):
        return params
    if NodeType.INDEX in params:
        return split_index(params[NodeType.VALUE])
    return {name: split_index(value) for name, value in params.items()}


def json2space(x: Any, oldy: Any = None, name: str = NodeType.ROOT) -> list[str]:
    """Return the paths of all parameters in a search space. Inner parameters come before their choice.

    ``oldy`` is a parameter set in which each choice is ``{"_index": i, "_value": option}``. If it is given,
    only the chosen options are included. A path looks like ``root[layers]-choice[1][size]-randint``. Raise
    RuntimeError if an option that is a mapping has no "_name".
    """
    found: list[str] = []
    if isinstance(x, dict) and NodeType.TYPE in x:
        name = f"{name}-{x[NodeType.TYPE]}"
        if x[NodeType.TYPE] == "choice":
            options = x[NodeType.VALUE]
            if oldy is None:
                found += json2space(options, None, name=name)
            else:
                index = oldy[NodeType.INDEX]
                found += json2space(options[index], oldy[NodeType.VALUE], name=f"{name}[{index}]")
        found.append(name)
    else:
        for key, inner in _children(x):
            found += json2space(inner, oldy[key] if oldy else None, name=f"{name}[{key}]")
    return found


def json2parameter(
    x: Any,
    is_rand: Mapping[str, bool],
    random_state: Any,
    oldy: Any = None,
    Rand: bool = False,
    name: str = NodeType.ROOT,
) -> Any:
    """Return a parameter set in which some values are drawn at random, and all others are copied from
    ``oldy``.

    ``is_rand`` maps each path of ``json2space`` to True if the part below it is drawn. ``Rand``: draw
    everything. In ``oldy`` and the result, a choice is ``{"_index": i, "_value": option}``. Raise
    RuntimeError if an option that is a mapping has no "_name".
    """
    if isinstance(x, dict) and NodeType.TYPE in x:
        kind, arguments = x[NodeType.TYPE], x[NodeType.VALUE]
        name = f"{name}-{kind}"
        Rand = bool(Rand or is_rand[name])
        if not Rand:
            return copy.deepcopy(oldy)
        if kind != "choice":
            return getattr(parameter_expressions, kind)(*arguments, random_state)
        index = int(random_state.randint(len(arguments)))
        value = json2parameter(arguments[index], is_rand, random_state, None, Rand, name=f"{name}[{index}]")
        return {NodeType.INDEX: index, NodeType.VALUE: value}
    if not isinstance(x, dict | list):
        return copy.deepcopy(x)
    drawn = {
        key: json2parameter(
            inner, is_rand, random_state, oldy[key] if oldy else None, Rand, name=f"{name}[{key}]"
        )
        for key, inner in _children(x)
    }
    return drawn if isinstance(x, dict) else list(drawn.values())


def _children(x: Any) -> list[tuple[Any, Any]]:
    """Return the items of a mapping, or the positions and values of a list.

    Raise RuntimeError if a mapping in the list has no "_name".
    """
    if isinstance(x, dict):
        return list(x.items())
    if not isinstance(x, list):
        return []
    for option in x:
        if isinstance(option, dict) and NodeType.NAME not in option:
            raise RuntimeError(f'the option {option!r:.100} of a nested search space has no "_name"')
    return list(enumerate(x))


def convert_dict2tuple(value: Any) -> Any:
    """Convert a mapping to a hashable tuple of sorted pairs.

    This also converts, and so changes, its inner mappings.
    """
    if not isinstance(value, dict):
        return value
    for key in value:
        value[key] = convert_dict2tuple(value[key])
    return tuple(sorted(value.items()))
