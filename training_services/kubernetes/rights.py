"""What the server's user has to be allowed in the namespace of an experiment, and what it is not allowed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["MAY", "lacking", "only_explains"]

MAY: Mapping[str, tuple[str, ...]] = {
    "jobs.batch": ("create", "get", "list", "watch", "delete"),
    "pods": ("list", "watch"),
    "pods/log": ("get",),
    "events": ("list", "watch"),
    "configmaps": ("create", "get", "delete"),
    "secrets": ("create", "get", "patch", "delete"),
}
"""Verbs that are needed for each resource. The name of a resource ends with its API group, if it has one."""

_EXPLAINING = ("events", "pods/log")


def only_explains(right: str) -> bool:
    """Return whether nnimgr uses a right, such as "list events", only to say why a pod waits or failed."""
    return right.partition(" ")[2] in _EXPLAINING


def lacking(review: Mapping[str, Any]) -> list[str]:
    """Return the rights that a user lacks, such as "delete jobs".

    ``review``: the cluster's answer to a ``SelfSubjectRulesReview``. If the cluster says that the answer is
    incomplete, nothing is known to lack.
    """
    status = review.get("status") or {}
    if status.get("incomplete"):
        return []
    rules = [rule for rule in status.get("resourceRules") or () if not rule.get("resourceNames")]
    return [right for resource, verbs in MAY.items() for right in _lacking(resource, verbs, rules)]


def _lacking(resource: str, verbs: tuple[str, ...], rules: list[Mapping[str, Any]]) -> Iterator[str]:
    name, _, group = resource.partition(".")
    granted = {
        verb
        for rule in rules
        if {group, "*"} & {*(rule.get("apiGroups") or ())} and {name, "*"} & {*(rule.get("resources") or ())}
        for verb in rule.get("verbs") or ()
    }
    yield from (f"{verb} {name}" for verb in verbs if not {verb, "*"} & granted)
