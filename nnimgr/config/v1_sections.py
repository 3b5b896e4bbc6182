"""Helpers to convert NNI's first configuration format: they move fields to places in the second format."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from nnimgr.config.document import Document, KeyPath, to_yaml
from nnimgr.config.parsing import match_key
from nnimgr.config.problems import Problem, dotted
from nnimgr.config.references import is_reference
from nnimgr.spelling import nearest

__all__ = ["Conversion", "ConvertedDocument", "Section"]

# Fields that only some versions or platforms of NNI read. Otherwise they have no effect.
_KNOWN_ELSEWHERE = frozenset(
    match_key(name)
    for name in (
        *("cpuNum", "memoryMB", "memorySize", "shmMB", "image", "virtualCluster", "authFile", "dataDir"),
        *("outputDir", "portList", "namespace", "imagePullSecrets", "nfs", "adaptive", "checkpoint"),
        *("nniManagerNFSMountPath", "containerNFSMountPath", "paiStorageConfigName", "paiConfigPath"),
        *(
            "privateRegistryAuthPath",
            "uploadRetryCount",
            "preCommand",
            "gpuNum",
            "checkpointDir",
            "gpuIndicies",
        ),
        *("localConfig", "remoteConfig", "machineList", "paiConfig", "paiYarnConfig", "kubeflowConfig"),
        *("frameworkcontrollerConfig", "amlConfig", "dltsConfig", "hybridConfig", "worker", "ps", "master"),
        *("taskRoles", "command", "maxTrialNumPerGpu", "useActiveGpu", "reuse", "configPath"),
    )
)

_SECRETS = ("password", "sshPassphrase", "token", "storageAccountKey")


class Conversion:
    """Result of the conversion so far: the new values, the origin of each value, and the errors."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.value: dict[str, Any] = {}
        self.origins: dict[KeyPath, KeyPath] = {}
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []

    def put(self, target: KeyPath, value: Any, origin: KeyPath) -> None:
        """Set the value at the path ``target`` of the second format. ``origin``: path in the user's file."""
        self.origins[target] = origin
        here: Any = self.value
        for part, following in pairwise(target):
            empty: Any = [] if isinstance(following, int) else {}
            if isinstance(here, list):
                here.extend({} for _ in range(len(here), int(part) + 1))
                here = here[int(part)]
            else:
                here = here.setdefault(part, empty)
        here[target[-1]] = value


class Section:
    """Section of the user's file in NNI's first format. It records which of its fields were converted."""

    def __init__(self, conversion: Conversion, at: KeyPath, raw: Mapping[Any, Any]) -> None:
        self._conversion = conversion
        self._at = at
        self._raw = raw
        self._spelled = {match_key(str(key)): key for key in raw}
        self._taken: dict[str, str] = {}

    def path(self, name: str) -> KeyPath:
        """Return the path of a field in the user's file, as the user wrote it."""
        return (*self._at, str(self._spelled.get(match_key(name), name)))

    def take(self, name: str) -> Any:
        """Return the value of a field, or None if it is missing or empty. Record the field as converted."""
        self._taken[match_key(name)] = name
        key = self._spelled.get(match_key(name))
        return None if key is None else self._raw[key]

    def inner(self, name: str, *, required: bool = False) -> Section | None:
        """Return the section that is the value of a field.

        Return None if the field is missing. If ``required``, this is reported as an error.
        """
        value = self.take(name)
        if value is None:
            if required:
                self.fault(name, "required, but not given")
            return None
        if not isinstance(value, Mapping):
            self.fault(name, "must be a mapping of keys to values")
            return None
        return Section(self._conversion, self.path(name), value)

    def inner_list(self, name: str, *, required: bool = False) -> list[Section]:
        """Return the sections in a field that is a list."""
        value = self.take(name)
        if value is None and not required:
            return []
        if not isinstance(value, list) or not all(isinstance(item, Mapping) for item in value):
            self.fault(name, "required, but not given" if value is None else "must be a list of mappings")
            return []
        return [Section(self._conversion, (*self.path(name), n), item) for n, item in enumerate(value)]

    def move(self, names: Mapping[str, str], to: KeyPath = ()) -> None:
        """Move fields to the second format. ``names``: name in the first format -> name in the second.

        ``to``: path of the place that gets the fields.
        """
        for old, new in names.items():
            value = self.take(old)
            if value is not None:
                self.put(old, (*to, new), value)
            else:
                self._conversion.origins.setdefault((*to, new), self.path(old))

    def put(self, name: str, target: KeyPath, value: Any) -> None:
        """Set the value at the path ``target`` of the second format.

        ``name``: field of this section from which the value comes.
        """
        self._conversion.put(target, value, self.path(name))

    def drop(self, names: Iterable[str], sentence: str | None = None) -> None:
        """Leave fields out of the second format. ``sentence``: warning about each of them, if any."""
        for name in names:
            if self.take(name) is not None and sentence is not None:
                self.warn(name, sentence)

    def finish(self) -> None:
        """Report every field of this section that was neither converted nor left out."""
        for matched, key in self._spelled.items():
            if matched in self._taken:
                continue
            if matched in _KNOWN_ELSEWHERE:
                self.warn(str(key), "has no effect here")
                continue
            names = list(self._taken.values())
            likely = nearest(str(key), names)
            self.fault(str(key), "unknown field", nearest=likely, valid=() if likely else names)

    def fault(
        self, name: str, message: str, *, valid: Sequence[str] = (), nearest: str | None = None
    ) -> None:
        """Report an error in a field of this section."""
        problem = self._conversion.document.problem(self.path(name), message, valid=valid, nearest=nearest)
        self._conversion.problems.append(problem)

    def warn(self, name: str, message: str) -> None:
        """Report a warning about a field of this section."""
        self._conversion.warnings.append(self._conversion.document.problem(self.path(name), message))


class ConvertedDocument(Document):
    """Document in NNI's second format. Its errors name the places in the user's file, in the first format."""

    first_format = True

    def __init__(self, conversion: Conversion) -> None:
        self.file = conversion.document.file
        self.value = conversion.value
        self.warnings = conversion.warnings
        self._source = conversion.document
        self._origins = conversion.origins
        self._named: dict[str, str] = {}

    def problem(
        self,
        path: Sequence[str | int],
        message: str,
        *,
        field: str | None = None,
        valid: Sequence[str] = (),
        nearest: str | None = None,
    ) -> Problem:
        origin = self._origin(tuple(path))
        name = dotted(path) if field is None else field
        self._named[name] = dotted(origin)
        return self._source.problem(origin, message, field=name, valid=valid, nearest=nearest)

    def in_own_words(self, problem: Problem) -> Problem:
        """Return the error with its field named as in the user's file."""
        return replace(problem, field=self._named.get(problem.field, problem.field))

    def with_service(self, service: dict[str, Any]) -> str:
        """Return the whole file in the second format as YAML, with another ``trainingService``."""
        return to_yaml({**_without_secrets(self.value), "trainingService": service})

    def as_yaml(self) -> str:
        """Return the file in the second format as YAML, with placeholders instead of secrets."""
        return to_yaml(_without_secrets(self.value))

    def _origin(self, path: KeyPath) -> KeyPath:
        """Return the path in the user's file from which the value at ``path`` of the second format comes.

        If this is unknown, the origin of the nearest parent is used.
        """
        for length in range(len(path), 0, -1):
            if path[:length] in self._origins:
                return self._origins[path[:length]] + path[length:]
        return self._section(path) or path

    def _section(self, path: KeyPath) -> KeyPath:
        """Return the path of the section in the user's file whose fields were moved to ``path``.

        Return () if it is unknown.
        """
        if len(path) < 2:
            return ()  # fields of the top level come from several sections
        inner = ((new, old) for new, old in self._origins.items() if new[: len(path)] == path)
        return next((old[: len(path) - len(new)] for new, old in inner if len(new) > len(path)), ())


def _without_secrets(value: Any, name: str = "") -> Any:
    if isinstance(value, Mapping):
        return {key: _without_secrets(item, str(key)) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_secrets(item) for item in value]
    if name in _SECRETS and not (isinstance(value, str) and is_reference(value)):
        return "<as in your file>"
    return value
