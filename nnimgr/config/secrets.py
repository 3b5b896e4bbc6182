"""Secrets of training services and notifications, which are removed from a configuration before it is stored.

A plain-text secret is stored with the environment variables of the experiment's creator, in a file of mode
0600. In the configuration it is replaced by ``${secret:<its field>}``, and restored for use. References that
the user wrote are not changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, SecretStr
from pydantic.alias_generators import to_camel

from nnimgr.config.document import KeyPath
from nnimgr.config.model import ExperimentConfig
from nnimgr.config.notification import NotificationConfig
from nnimgr.config.problems import dotted
from nnimgr.config.references import is_reference, resolve_secrets

__all__ = ["hide_in", "hide_secrets", "reveal_secrets"]

_Service = TypeVar("_Service", bound=BaseModel | list[NotificationConfig] | None)


def hide_secrets(config: ExperimentConfig) -> tuple[ExperimentConfig, dict[str, str]]:
    """Replace a configuration's secrets by references.

    Return the configuration, and a mapping from reference to secret.
    """
    service, hidden = hide_in(config.training_service, ("trainingService",))
    notify, more = hide_in(config.notify, ("notify",))
    return config.model_copy(update={"training_service": service, "notify": notify}), hidden | more


def hide_in(model: _Service, at: KeyPath) -> tuple[_Service, dict[str, str]]:
    """Replace the secrets in a part of a configuration by references.

    Return the part, and a mapping from reference to secret. ``at``: path of the part in the configuration.
    """
    hidden: dict[str, str] = {}

    def hide(text: str, path: KeyPath) -> str:
        if is_reference(text):
            return text
        name = dotted(path)
        hidden[name] = text
        return f"${{secret:{name}}}"

    found: _Service = _replace(model, hide, at)
    return found, hidden


def reveal_secrets(
    service: _Service, *, environ: Mapping[str, str], base: Path, secrets: Mapping[str, str]
) -> _Service:
    """Return a part of a configuration with each reference replaced by its secret.

    Raise ReferenceUnresolved.
    """

    def reveal(text: str, _: KeyPath) -> str:
        return str(resolve_secrets(text, environ, base, secrets=secrets))

    revealed: _Service = _replace(service, reveal, ())
    return revealed


def _replace(value: Any, change: Callable[[str, KeyPath], str], path: KeyPath) -> Any:
    """Return ``value`` with every secret in it replaced by what the function ``change`` returns for it."""
    if isinstance(value, SecretStr):
        return SecretStr(change(value.get_secret_value(), path))
    if isinstance(value, BaseModel):
        changed = {}
        for name, field in type(value).model_fields.items():
            old = getattr(value, name)
            new = _replace(old, change, (*path, field.alias or to_camel(name)))
            if new is not old:
                changed[name] = new
        return value.model_copy(update=changed) if changed else value
    if isinstance(value, dict):
        found = {key: _replace(item, change, (*path, key)) for key, item in value.items()}
        return value if all(found[key] is item for key, item in value.items()) else found
    if isinstance(value, list):
        items = [_replace(item, change, (*path, number)) for number, item in enumerate(value)]
        same = all(new is old for new, old in zip(items, value, strict=True))
        return value if same else items
    return value
