"""Class that describes a built-in or registered algorithm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

__all__ = ["AlgoMeta"]


class AlgoMeta(NamedTuple):
    """Description of a tuner or assessor. Class names have the form "module.Class"."""

    name: str
    alias: str | None
    class_name: str | None
    accept_class_args: bool
    class_args: dict[str, Any] | None
    validator_class_name: str | None
    algo_type: str
    is_advisor: bool
    is_builtin: bool
    nni_version: str | None

    @staticmethod
    def load(meta: Mapping[str, Any], algo_type: str | None = None) -> AlgoMeta:
        """Build an algorithm's description from a dict in the form of ``registered_algorithms.yml``."""
        role = algo_type or meta["algoType"]
        return AlgoMeta(
            name=meta["builtinName"],
            alias=meta.get("alias"),
            class_name=meta["className"],
            accept_class_args=meta.get("acceptClassArgs", True),
            class_args=meta.get("classArgs"),
            validator_class_name=meta.get("classArgsValidator"),
            algo_type="assessor" if role == "assessor" else "tuner",
            is_advisor=meta.get("isAdvisor", role == "advisor"),
            is_builtin=meta.get("source") == "nni",
            nni_version=meta.get("nniVersion"),
        )

    def dump(self) -> dict[str, Any]:
        """Return the description as a dict in the form of ``registered_algorithms.yml``."""
        found = {
            "builtinName": self.name,
            "alias": self.alias,
            "className": self.class_name,
            "acceptClassArgs": None if self.accept_class_args else False,
            "classArgs": self.class_args,
            "classArgsValidator": self.validator_class_name,
            "isAdvisor": self.is_advisor or None,
            "source": "nni" if self.is_builtin else "user",
            "nniVersion": self.nni_version,
        }
        return {key: value for key, value in found.items() if value is not None}
