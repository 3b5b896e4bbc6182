"""Finders: functions that search a configuration file for fields that nnimgr treats differently from NNI.

A finder yields the fields that it finds. Each entry in the table of ``nni_differences`` has a finder.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import yaml

from nnimgr.builtins import built_in, meant
from nnimgr.config.document import number_hint
from nnimgr.config.foreign import FOREIGN_PLATFORMS
from nnimgr.config.nni_file import Field, NniFile
from nnimgr.config.references import has_reference
from nnimgr.goal import is_stated, optimize_mode, stated_goal, stated_mode

__all__ = [
    "Finder",
    "advisors_of_users",
    "algorithm",
    "built_in_classes",
    "code_directories",
    "conflicting_goals",
    "default_keys",
    "each_member",
    "each_platform",
    "every_role",
    "first_format",
    "foreign_platforms",
    "gpu_numbers",
    "hyperopt",
    "left_out",
    "local_commands",
    "machines",
    "manager_addresses",
    "missing",
    "no_goal",
    "numbers_in_json",
    "parallel_commands",
    "registered",
    "roles_of_several_pods",
    "secrets",
    "some_of",
    "spaces_of",
    "tpe_defaults",
    "unknown_platforms",
    "value",
]

Finder = Callable[[NniFile], Iterable[Field]]

_HYPEROPT = "nni.algorithms.hpo.hyperopt_tuner.HyperoptTuner"
_CHANGED_DEFAULTS = ("constant_liar_type", "n_startup_jobs", "n_ei_candidates", "gamma")
_LAUNCHERS = re.compile(
    r"\b(torchrun|torch\.distributed|accelerate|deepspeed|horovodrun|mpirun|mpiexec|srun)\b"
)
_KNOWN_PLATFORMS = ("local", "remote", "kubernetes", "kubeflow", "frameworkcontroller", "hybrid")


def _some(*fields: Field | None) -> Iterator[Field]:
    yield from (field for field in fields if field is not None)


def value(*path: str, equals: object = None) -> Finder:
    """Return a function that finds the field at this path. ``equals``: find it only with this value."""

    def find(file: NniFile) -> Iterator[Field]:
        for found in _some(file.field(*path)):
            if equals is None or found.value == equals:
                yield found

    return find


def some_of(*finders: Finder) -> Finder:
    """Return a function that finds all fields that any of these functions finds."""
    return lambda file: (field for find in finders for field in find(file))


def first_format(*path: str, within: str | None = None) -> Finder:
    """Return a function that finds the field at this path of NNI's first format, unless it is false.

    ``within``: find the field in each entry of the list with this name.
    """

    def find(file: NniFile) -> Iterator[Field]:
        if within is None:
            yield from _some(file.of_first(*path))
        else:
            for entries in _some(file.of_first(within)):
                yield from _some(*(entry.inner(*path) for entry in entries.items()))

    return lambda file: (field for field in find(file) if field.value is not False)


def missing(name: str) -> Finder:
    """Return a function that reports this field if the file does not have it."""
    return lambda file: [] if file.field(name) is not None else [file.missing(name)]


def numbers_in_json(file: NniFile) -> Iterator[Field]:
    """Find numbers of a JSON file that NNI would read as texts, because NNI reads JSON files as YAML."""
    if not file.path.is_file():
        return  # a pipe, for example, can be read only once
    text = file.path.read_text(encoding="utf-8-sig")
    try:
        json.loads(text)
        as_yaml = yaml.safe_load(text.replace("\t", " "))
    except (ValueError, yaml.YAMLError):
        return
    whole = file.of_first() if file.first is not None else file.field()
    if whole is not None:
        yield from _texts(whole, as_yaml)


def _texts(field: Field, as_yaml: Any) -> Iterator[Field]:
    if isinstance(as_yaml, str) and number_hint(as_yaml) and not isinstance(field.value, str):
        yield field
    elif isinstance(as_yaml, Mapping):
        for key, item in as_yaml.items():
            if isinstance(field.value, Mapping) and key in field.value:
                yield from _texts(Field(field.document, (*field.path, key), field.value[key]), item)
    elif isinstance(as_yaml, list) and isinstance(field.value, list):
        for number, (item, own) in enumerate(zip(as_yaml, field.value, strict=False)):
            yield from _texts(Field(field.document, (*field.path, number), own), item)


# Algorithms


def _plain(field: Field | None) -> dict[str, Any]:
    """Return the fields of a tuner or assessor by their usual names, however the user spells them."""
    if field is None:
        return {}
    names = ("name", "className", "codeDirectory", "classArgs")
    found = {name: inner.value for name in names if (inner := field.inner(name)) is not None}
    if not isinstance(found.get("classArgs"), Mapping):
        found.pop("classArgs", None)
    return found


def _named(field: Field) -> Field:
    """Return the field with the name or class of an algorithm."""
    return field.inner("name") or field.inner("className") or field


def algorithm(role: str, name: str = "") -> Finder:
    """Return a function that finds the built-in tuner or assessor ``name``, or any algorithm for ""."""

    def find(file: NniFile) -> Iterator[Field]:
        for field in _some(file.algorithm(role)):
            builtin = meant(role, _plain(field))
            if not name or (builtin is not None and builtin.name == name):
                yield _named(field)

    return find


def tpe_defaults(file: NniFile) -> Iterator[Field]:
    """Find the tuner TPE if it uses a default value that differs from NNI's default."""
    for field in algorithm("tuner", "TPE")(file):
        given = file.algorithm("tuner")
        arguments = None if given is None else given.inner("classArgs", "tpe_args")
        written = arguments.value if arguments is not None and isinstance(arguments.value, Mapping) else {}
        if not set(_CHANGED_DEFAULTS) <= written.keys():
            yield arguments or field


def left_out(file: NniFile) -> Iterator[Field]:
    """Find a tuner that NNI has built in and nnimgr does not have."""
    from nnimgr.dispatcher import registry

    for field in _some(file.algorithm("tuner")):
        if registry.left_out("tuner", str(_plain(field).get("name"))) is not None:
            yield _named(field)


def registered(file: NniFile) -> Iterator[Field]:
    """Find algorithms that the user has registered or installed under a name of their own."""
    for role in ("tuner", "assessor"):
        for field in _some(file.algorithm(role)):
            name = _plain(field).get("name")
            known = name == "_none_" or not isinstance(name, str) or built_in(role, name=name) is not None
            if not known and not list(left_out(file)):
                yield _named(field)


def built_in_classes(file: NniFile) -> Iterator[Field]:
    """Find built-in algorithms that are given by the import path of NNI's class."""
    for role in ("tuner", "assessor"):
        for field in _some(file.algorithm(role)):
            plain = _plain(field)
            if str(plain.get("className", "")).startswith("nni.") and meant(role, plain) is not None:
                yield _named(field)


def hyperopt(file: NniFile) -> Iterator[Field]:
    """Find NNI's tuner class for the algorithms of the package hyperopt."""
    for field in _some(file.algorithm("tuner")):
        if _plain(field).get("className") == _HYPEROPT:
            yield _named(field)


def advisors_of_users(file: NniFile) -> Iterator[Field]:
    """Find an advisor that is a user's own class."""
    for field in _some(file.field("advisor")):
        if "className" in _plain(field) and meant("tuner", _plain(field)) is None:
            yield _named(field)


def _goals(file: NniFile) -> dict[str, Any]:
    found: dict[str, Any] = {role: _plain(file.algorithm(role)) for role in ("tuner", "assessor")}
    for name, kind in (("goal", str), ("objectives", Mapping)):
        field = file.field(name)
        if field is not None and isinstance(field.value, kind):
            found[name] = field.value
    return found


def no_goal(file: NniFile) -> Iterator[Field]:
    """Find a missing ``goal``: the file has a tuner but does not say which results are better."""
    tuner = file.algorithm("tuner")
    if tuner is not None and not is_stated(_goals(file)):
        yield file.missing("goal")


def conflicting_goals(file: NniFile) -> Iterator[Field]:
    """Find an assessor whose default direction of better results is the opposite of the tuner's."""
    goals = _goals(file)
    tuner, assessor = meant("tuner", goals["tuner"]), meant("assessor", goals["assessor"])
    if assessor is None or "optimize_mode" not in assessor.arguments or (tuner is not None and tuner.advisor):
        return
    if stated_goal(goals) is None:
        judged = stated_mode(goals, "assessor") or "maximize"
        if judged != optimize_mode(goals):
            yield from _some(file.algorithm("assessor"))


def spaces_of(tuner: str, *types: str, nested: int = 0, choices_of_numbers: bool = False) -> Finder:
    """Return a function that finds the parameters that the given tuner of NNI cannot search.

    ``types``: types of parameters that the tuner can search; if empty, it can search all types. ``nested``:
    number of levels of nested choices that it can search. ``choices_of_numbers``: the options of its choices
    must be numbers.
    """

    def find(file: NniFile) -> Iterator[Field]:
        if not list(algorithm("tuner", tuner)(file)):
            return
        for field in file.parameters():
            kind = field.value.get("_type") if isinstance(field.value, Mapping) else None
            options = field.value.get("_value") if kind == "choice" else None
            if (types and kind not in types) or _depth(field.value) > nested:
                yield field
            elif choices_of_numbers and isinstance(options, list):
                yield from [field] if any(isinstance(each, str) for each in options) else []

    return find


def _depth(spec: Any) -> int:
    """Return the number of levels of nested choices in a parameter: 0 if no choices are nested."""
    options = spec.get("_value") if isinstance(spec, Mapping) and spec.get("_type") == "choice" else None
    if not isinstance(options, list) or not options:
        return 0
    if not all(isinstance(each, Mapping) and "_name" in each for each in options):
        return 0
    inner = [_depth(spec) for each in options for key, spec in each.items() if key != "_name"]
    return 1 + max(inner, default=0)


# Trials and training services


def _shared(file: NniFile, name: str) -> Iterator[tuple[Field, Field | None]]:
    """Yield each training service with its value of the field ``name``, or else the top level's value."""
    for member in file.members():
        yield member, member.inner(name) or file.field(name)


def _different(fields: Iterable[Field]) -> Iterator[Field]:
    """Yield each field once, even if several training services share it."""
    seen = set()
    for field in fields:
        if field.path not in seen:
            seen.add(field.path)
            yield field


def _platform(member: Field) -> Field:
    return member.inner("platform") or member


def local_commands(file: NniFile) -> Iterator[Field]:
    """Find the trial commands that run on the server's machine."""
    found = _shared(file, "trialCommand")
    yield from _different(field for member, field in found if _platform(member).value == "local" and field)


def parallel_commands(file: NniFile) -> Iterator[Field]:
    """Find trial commands that start several processes, such as with torchrun or mpirun."""
    found = [field for _, field in _shared(file, "trialCommand")]
    fields = _different([*_some(*found), *every_role("command")(file)])
    return (field for field in fields if _LAUNCHERS.search(str(field.value)))


def gpu_numbers(file: NniFile) -> Iterator[Field]:
    """Find the number of GPUs per trial, for the platforms local and remote."""
    found = _shared(file, "trialGpuNumber")
    yield from _different(
        field
        for member, field in found
        if _platform(member).value in ("local", "remote") and field and field.value
    )


def code_directories(file: NniFile) -> Iterator[Field]:
    """Find the trial code directories that are copied to machines over SSH.

    If a training service over SSH has no code directory, find its field ``platform`` instead.
    """
    for member, field in _shared(file, "trialCodeDirectory"):
        if _platform(member).value == "remote":
            yield field or _platform(member)


def manager_addresses(file: NniFile) -> Iterator[Field]:
    """Find the address at which machines over SSH call the server."""
    found = _shared(file, "nniManagerIp")
    yield from _different(field for member, field in found if _platform(member).value == "remote" and field)


def each_platform(*names: str) -> Finder:
    """Return a function that finds the field ``platform`` in training services of these platforms."""
    return lambda file: (_platform(member) for member in file.platform(*names))


def each_member(*path: str, of: tuple[str, ...], equals: object = None) -> Finder:
    """Return a function that finds a field in training services of these platforms.

    ``equals``: find the field only if it has this value.
    """

    def find(file: NniFile) -> Iterator[Field]:
        for found in _some(*(member.inner(*path) for member in file.platform(*of))):
            if equals is None or found.value == equals:
                yield found

    return find


def foreign_platforms(file: NniFile) -> Iterator[Field]:
    """Find platforms of NNI that nnimgr cannot run."""
    return (_platform(member) for member in file.platform(*FOREIGN_PLATFORMS))


def unknown_platforms(file: NniFile) -> Iterator[Field]:
    """Find platforms that are built in neither in NNI nor in nnimgr."""
    for member in file.members():
        if _platform(member).value not in (*_KNOWN_PLATFORMS, *FOREIGN_PLATFORMS):
            yield _platform(member)


def machines(*path: str) -> Finder:
    """Return a function that finds a field of each machine over SSH."""

    def find(file: NniFile) -> Iterator[Field]:
        for machine in _machines(file):
            yield from _some(machine.inner(*path))

    return find


def _machines(file: NniFile) -> Iterator[Field]:
    for member in file.platform("remote"):
        for entries in _some(member.inner("machineList")):
            yield from entries.items()


def secrets(file: NniFile) -> Iterator[Field]:
    """Find passwords and passphrases of machines that are in the file as plain text."""
    for machine in _machines(file):
        for field in _some(machine.inner("password"), machine.inner("sshPassphrase")):
            if not (isinstance(field.value, str) and has_reference(field.value)):
                yield field


def default_keys(file: NniFile) -> Iterator[Field]:
    """Find machines over SSH with neither a password nor a key, for which SSH's default keys are used."""
    for machine in _machines(file):
        if machine.inner("password") is None and machine.inner("sshKeyFile") is None:
            yield machine.inner("host") or machine


def _roles(member: Field) -> Iterator[Field]:
    for name in ("worker", "ps", "master"):
        yield from _some(member.inner(name))
    for roles in _some(member.inner("taskRoles")):
        yield from roles.items()


def roles_of_several_pods(file: NniFile) -> Iterator[Field]:
    """Find roles after the first one, and roles with more or fewer than one pod.

    A role is a kind of pod in the platforms kubeflow and frameworkcontroller.
    """
    for member in file.platform("kubeflow", "frameworkcontroller"):
        for number, role in enumerate(_roles(member)):
            pods = role.inner("replicas") or role.inner("taskNumber")
            if number:
                yield role
            elif pods is not None and pods.value != 1:
                yield pods


def every_role(name: str) -> Finder:
    """Return a function that finds a field of every role.

    A role is a kind of pod in the platforms kubeflow and frameworkcontroller.
    """

    def find(file: NniFile) -> Iterator[Field]:
        for member in file.platform("kubeflow", "frameworkcontroller"):
            yield from _some(*(role.inner(name) for role in _roles(member)))

    return find
