"""Checks of names, labels and amounts for Kubernetes; each check raises ValueError with one sentence."""

from __future__ import annotations

import hashlib
import re
from decimal import ROUND_CEILING, Decimal
from typing import Any

__all__ = [
    "CONTAINER",
    "EXPERIMENT_LABEL",
    "OWN_FOLDER",
    "OWN_LABELS",
    "OWN_VARIABLES",
    "OWN_VOLUMES",
    "check_annotation_key",
    "check_environment_name",
    "check_label",
    "check_label_key",
    "check_mount_path",
    "check_name",
    "check_namespace",
    "check_resource_name",
    "check_secret_key",
    "cpu_quantity",
    "label_value",
    "memory_quantity",
    "object_name",
    "parse_quantity",
]

# Prefixes of names in a pod that are reserved for nnimgr: of paths, volumes, variables and labels.
OWN_FOLDER = "/nnimgr"
OWN_VOLUMES = "nnimgr-"
OWN_VARIABLES = "NNIMGR_"
OWN_LABELS = ("nnimgr.io/", "app.kubernetes.io/managed-by")

EXPERIMENT_LABEL = "nnimgr.io/experiment"
# name of the container that runs the trial; when it ends, the pod counts as ended, even if others run
CONTAINER = "trial"

_DNS_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_DNS_SUBDOMAIN = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")
_LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_ENVIRONMENT = re.compile(r"[A-Za-z_][A-Za-z0-9._-]*")
_SECRET_KEY = re.compile(r"[A-Za-z0-9._-]+")
_QUANTITY = re.compile(r"(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,2}|[KMGTPE]i|[numkMGTPE])?")
_ODD = re.compile(r"[^a-z0-9]+")
_ODD_IN_LABELS = re.compile(r"[^A-Za-z0-9._-]+")
_UNITS = {
    **{unit: Decimal(1000) ** power for power, unit in enumerate(("n", "u", "m", "", "k"), -3)},
    **{unit: Decimal(1000) ** power for power, unit in enumerate("MGTPE", 2)},
    **{f"{unit}i": Decimal(1024) ** power for power, unit in enumerate("KMGTPE", 1)},
}
_LONGEST_LABEL = 63
_LONGEST_NAME = 253
_LONGEST_OBJECT = 52  # a pod's name, at most 63 characters, is the Job's name and up to 11 more


def check_namespace(text: str) -> str:
    """Raise ValueError if the text is not a valid namespace or name of a volume (a DNS label)."""
    if len(text) > _LONGEST_LABEL or not _DNS_LABEL.fullmatch(text):
        raise ValueError(
            f"{text!r} must be 1 to {_LONGEST_LABEL} lower-case letters, digits and '-', with a letter or a "
            "digit at both ends"
        )
    return text


def check_name(text: str) -> str:
    """Raise ValueError if the text is not a valid name of a Secret, service account or similar object."""
    if len(text) > _LONGEST_NAME or not _DNS_SUBDOMAIN.fullmatch(text):
        raise ValueError(
            f"{text!r} is not a valid Kubernetes name: use lower-case letters, digits, '-' and "
            "'.', with a letter or a digit at both ends"
        )
    return text


def check_secret_key(text: str) -> str:
    """Raise ValueError if the text is not a valid key in a Secret or ConfigMap."""
    if len(text) > _LONGEST_NAME or not _SECRET_KEY.fullmatch(text):
        raise ValueError(
            f"{text!r} is not a valid key of a Secret or ConfigMap: use letters, digits, '-', '_', '.'"
        )
    return text


def check_label_key(text: str) -> str:
    """Raise ValueError if the text is not a valid label key: at most 63 characters, with an optional domain
    and slash before them.
    """
    domain, slash, name = text.rpartition("/")
    if slash:
        check_name(domain)
    if len(name) > _LONGEST_LABEL or not _LABEL.fullmatch(name):
        raise ValueError(
            f"{text!r} is not a valid label key: use up to {_LONGEST_LABEL} letters, digits, '-', '_' and "
            "'.', optionally after a domain and a slash"
        )
    return text


check_annotation_key = check_label_key
check_resource_name = check_label_key  # for names such as nvidia.com/gpu


def check_label(text: str) -> str:
    """Raise ValueError if the text is not a valid value of a label. It may be empty."""
    if text and (len(text) > _LONGEST_LABEL or not _LABEL.fullmatch(text)):
        raise ValueError(
            f"{text!r} is not a valid label value: use up to {_LONGEST_LABEL} letters, digits, '-', "
            "'_' and '.', with a letter or a digit at both ends"
        )
    return text


def check_environment_name(text: str) -> str:
    if not _ENVIRONMENT.fullmatch(text):
        raise ValueError(f"{text!r} is not a valid name of an environment variable")
    return text


def check_mount_path(text: str) -> str:
    """Check an absolute path in a container, and return it without a slash at its end."""
    if not text.startswith("/") or ":" in text or ".." in text.split("/"):
        raise ValueError(f"{text!r} must be an absolute path in the container, without ':' and '..'")
    return text.rstrip("/") or "/"


def parse_quantity(value: Any) -> Decimal:
    """Parse a positive amount as Kubernetes writes it, such as ``500m``, ``2`` or ``1.5Gi``."""
    text = str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
    match = _QUANTITY.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise ValueError(f"{value!r} is not an amount; write one like 2, 500m, 512Mi or 8Gi")
    number, unit = Decimal(match[1]), match[2] or ""
    amount = number * (_UNITS[unit] if unit in _UNITS else Decimal(f"1{unit}"))
    if amount <= 0:
        raise ValueError(f"{value!r} must be above 0")
    return amount


def cpu_quantity(value: Any) -> str:
    """Return a number of CPUs as Kubernetes writes it (``2``, ``500m``), rounded up to thousandths."""
    if isinstance(value, str) and value.endswith("i"):
        raise ValueError(f"{value!r} is not a number of CPUs; write one like 2, 0.5 or 500m")
    millis = int((parse_quantity(value) * 1000).to_integral_value(rounding=ROUND_CEILING))
    return f"{millis}m" if millis % 1000 else str(millis // 1000)


def memory_quantity(value: Any) -> str:
    """Return the amount of memory unchanged if it is valid in Kubernetes, such as ``512Mi`` or ``8Gi``."""
    if not isinstance(value, str) or parse_quantity(value) < 1024:
        raise ValueError(f"{value!r} is not an amount of memory; write one like 512Mi or 8Gi")
    return value


def object_name(text: str) -> str:
    """Return a name for a Job: ``text`` if it is valid, or a similar name that ends with a hash of
    ``text``.
    """
    if len(text) <= _LONGEST_OBJECT and _DNS_LABEL.fullmatch(text):
        return text
    digest = _digest(text)
    like = _ODD.sub("-", text.lower())[: _LONGEST_OBJECT - len(digest) - 1].strip("-")
    return f"{like or 'x'}-{digest}"


def label_value(text: str) -> str:
    """Return a value for a label: ``text`` if it is valid, or a similar one that ends with a hash of
    ``text``.
    """
    if len(text) <= _LONGEST_LABEL and _LABEL.fullmatch(text):
        return text
    digest = _digest(text)
    like = _ODD_IN_LABELS.sub("-", text)[: _LONGEST_LABEL - len(digest) - 1].strip("-._")
    return f"{like or 'x'}-{digest}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]
