"""Merges the user's ``podTemplate`` into the pods that nnimgr creates. Does no I/O.

Mappings are merged key by key; null deletes a key. Some lists are merged item by item: ``volumeMounts`` match
by ``mountPath``, ``tolerations`` by ``key``, items of other lists by ``name``; new items come last. Lists
whose items have no such key are replaced.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from training_services.kubernetes.syntax import CONTAINER, OWN_FOLDER, OWN_LABELS, OWN_VARIABLES, OWN_VOLUMES

__all__ = ["TemplateError", "check_affinity", "check_template", "merged"]

_IDENTITIES = {"volumeMounts": "mountPath", "tolerations": "key"}
_AFFINITIES = ("nodeAffinity", "podAffinity", "podAntiAffinity")
_PARTS = ("metadata", "spec")


class TemplateError(ValueError):
    """Error: the podTemplate cannot be merged. ``path``: path of the wrong field in it."""

    def __init__(self, path: Sequence[str | int], message: str) -> None:
        super().__init__(message)
        self.path = tuple(path)


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of ``base`` into which ``over`` is merged. Raises TemplateError."""
    return _merge_mapping(base, over, ())


def check_affinity(found: dict[str, Any]) -> dict[str, Any]:
    """Raise ValueError for unknown kinds of affinity, and return ``found``. The cluster checks the rest."""
    for key, value in found.items():
        if key not in _AFFINITIES:
            raise ValueError(f"unknown kind {key!r}; valid are {', '.join(_AFFINITIES)}")
        if not isinstance(value, Mapping):
            raise ValueError(f"{key} must be a mapping")
    return found


def check_template(found: dict[str, Any]) -> dict[str, Any]:
    """Raise ValueError if the podTemplate changes parts of a pod that nnimgr needs; else return it."""
    for key, part in found.items():
        if key not in _PARTS:
            raise ValueError(f"unknown key {key!r}; valid are metadata and spec, as in a pod's template")
        if not isinstance(part, Mapping):
            raise ValueError(f"{key} must be a mapping")
    for key in found.get("metadata", {}):
        if key not in ("labels", "annotations"):
            raise ValueError(f"metadata.{key} is set by nnimgr; only labels and annotations are allowed")
    labels = found.get("metadata", {}).get("labels", {})
    if not isinstance(labels, Mapping) or any(str(key).startswith(OWN_LABELS) for key in labels):
        raise ValueError(
            f"metadata.labels must be a mapping, without {' and '.join(OWN_LABELS)}, which nnimgr sets"
        )
    spec = found.get("spec", {})
    if spec.get("restartPolicy", "Never") != "Never":
        raise ValueError("spec.restartPolicy must be Never: another attempt gets another pod")
    _check_containers(spec)
    return found


def _check_containers(spec: Mapping[str, Any]) -> None:
    for kind in ("containers", "initContainers", "volumes"):
        if kind in spec and not _named(spec[kind], "name"):
            raise ValueError(f"spec.{kind} must be a list of mappings, each with its own name")
    for kind in ("initContainers", "volumes"):
        for item in spec.get(kind, ()):
            if str(item["name"]).startswith(OWN_VOLUMES):
                raise ValueError(f"spec.{kind}: names that begin with {OWN_VOLUMES} are reserved for nnimgr")
    for container in spec.get("containers", ()):
        if container["name"] != CONTAINER:
            continue
        for variable in _items(container.get("env")):
            if str(variable.get("name")).startswith(OWN_VARIABLES):
                raise ValueError(f"the variable {variable['name']} is set by nnimgr; remove it")
        for mount in _items(container.get("volumeMounts")):
            if f"{mount.get('mountPath')}/".startswith(f"{OWN_FOLDER}/"):
                raise ValueError(
                    f"{OWN_FOLDER} in the container is used by nnimgr; choose another mount path"
                )
        for key in ("image", "command", "args"):
            if key in container:
                raise ValueError(
                    f"the {key} of the container {CONTAINER} cannot be changed: nnimgr sets it to "
                    "run the trialCommand; use the fields image and trialCommand"
                )
        if not _named(container.get("volumeMounts", ()), "mountPath"):
            raise ValueError(
                f"the volumeMounts of the container {CONTAINER} must be a list of mappings, each with its "
                "own mountPath"
            )


def _items(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _merge(base: Any, over: Any, path: tuple[str | int, ...]) -> Any:
    if isinstance(base, Mapping):
        if not isinstance(over, Mapping):
            raise TemplateError(path, "must be a mapping, like the value that it is merged into")
        return _merge_mapping(base, over, path)
    if isinstance(base, list) and isinstance(over, Sequence) and not isinstance(over, str):
        identity = _IDENTITIES.get(str(path[-1]), "name")
        if _named(base, identity) and _named(over, identity):
            return _merge_lists(base, over, identity, path)
    elif isinstance(base, list):
        raise TemplateError(path, "must be a list, like the value that it replaces")
    return _without_null(over)


def _merge_mapping(
    base: Mapping[str, Any], over: Mapping[str, Any], path: tuple[str | int, ...]
) -> dict[str, Any]:
    found = copy.deepcopy(dict(base))
    for key, value in over.items():
        if value is None:
            found.pop(key, None)
        elif key in found:
            found[key] = _merge(found[key], value, (*path, key))
        else:
            found[key] = _without_null(value)
    return found


def _merge_lists(
    base: Sequence[Mapping[str, Any]],
    over: Sequence[Mapping[str, Any]],
    identity: str,
    path: tuple[str | int, ...],
) -> list[Any]:
    found = {item[identity]: copy.deepcopy(dict(item)) for item in base}
    for number, item in enumerate(over):
        name = item[identity]
        found[name] = _merge_mapping(found.get(name, {}), item, (*path, number))
    return list(found.values())


def _named(items: Any, identity: str) -> bool:
    """Return True if ``items`` is a list of mappings that each have a different text under the key
    ``identity``.
    """
    if not isinstance(items, Sequence) or isinstance(items, str):
        return False
    if not all(isinstance(item, Mapping) and isinstance(item.get(identity), str) for item in items):
        return False
    return len({item[identity] for item in items}) == len(items)


def _without_null(value: Any) -> Any:
    """Return the value without null entries: they delete keys, and there is nothing to delete here."""
    if isinstance(value, Mapping):
        return {key: _without_null(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [_without_null(item) for item in value]
    return value
