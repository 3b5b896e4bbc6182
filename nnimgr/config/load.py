"""Reading of a configuration from a file, a text or its stored form, and the checks before a start."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nnimgr.builtins import meant
from nnimgr.config.class_paths import class_fault
from nnimgr.config.document import Document, KeyPath, number_hint_at, read_document
from nnimgr.config.feasibility import Feasibility
from nnimgr.config.goals import check_goals, warn_of_goal
from nnimgr.config.launch import check_launch
from nnimgr.config.memory import GrowingMemory
from nnimgr.config.model import (
    AlgorithmConfig,
    ExperimentConfig,
)
from nnimgr.config.parameter_sets import check_sets
from nnimgr.config.parsing import Reading, check_references, match_key, parse, plain, validate
from nnimgr.config.path_checks import directory_fault, file_fault, working_fault
from nnimgr.config.problems import ConfigError, Problem, dotted
from nnimgr.config.resizing import check_resizing
from nnimgr.config.schedulers import check_scheduler, read_argument_file
from nnimgr.config.service import (
    NO_SERVICE,
    Part,
    Service,
    check_capacity,
    check_checkpoints,
    check_gpus,
    check_growth,
    check_keys,
    check_preemptible,
    check_priority,
    read_service,
    warn_of_gpus,
)
from nnimgr.config.shared_storage import check_shared_storage
from nnimgr.config.sinks import check_sinks, keep_references
from nnimgr.config.spill import check_spill
from nnimgr.config.storage import check_storage
from nnimgr.config.trial_command import warn_of_command
from nnimgr.config.trial_needs import check_needs
from nnimgr.config.v1 import convert, is_v1
from nnimgr.home import Home
from nnimgr.rules.terms import Role
from nnimgr.spelling import not_utf8

if TYPE_CHECKING:
    from nnimgr.dispatcher.registry import Interpreter

__all__ = ["Loaded", "check_config", "check_own_class", "load_config", "load_text", "read_canonical"]

_NOT_SET = "_none_"


@dataclass(frozen=True, slots=True)
class Loaded:
    """Valid configuration, with warnings for the user who wrote it.

    ``feasibility``: share of the search space that meets its constraints; None without constraints.
    ``converted``: YAML in NNI's second format without secrets, if the file is in the first format.
    """

    config: ExperimentConfig
    warnings: tuple[Problem, ...]
    feasibility: Feasibility | None = None
    converted: str | None = None


class _Written(ExperimentConfig):
    """Configuration with all fields that users may write, including deprecated ones."""

    advisor: AlgorithmConfig | None = None


def load_config(file: Path, *, environ: Mapping[str, str] = os.environ) -> Loaded:
    """Read ``file`` and the search space file that it names. Raise ConfigError with all errors in them."""
    return _load(read_document(file), Path(os.path.abspath(file)).parent, environ)


def load_text(text: str, *, base: Path, environ: Mapping[str, str] = os.environ) -> Loaded:
    """Read a configuration from a text that is not in a file. Relative paths start from ``base``.

    Errors then name a line of the text, but no file. Raise ConfigError.
    """
    if (trouble := directory_fault(base)) is not None or not base.is_absolute():
        sentence = f"the directory {base} {trouble or 'must be an absolute path'}"
        raise ConfigError([Problem(field="cwd", message=sentence)])
    return _load(Document(None, text), base, environ)


def _load(document: Document, base: Path, environ: Mapping[str, str]) -> Loaded:
    converted = None
    if is_v1(document.value):
        document = first = convert(document)
        converted = first.as_yaml()
    reading = Reading(document=document, base=base, environ=environ)
    if not isinstance(document.value, Mapping):
        reading.fault((), "the file must hold a mapping of fields to values")
        raise ConfigError(reading.problems)
    fields = parse(reading, _without_service(document.value), _Written) or {}
    _fold_algorithms(reading, fields)
    keep_references(reading, fields)
    read_argument_file(reading, _algorithm(fields, Role.SCHEDULER))
    space = _SearchSpace.find(reading, fields)
    fields.setdefault("trialCodeDirectory", base)
    fields.setdefault("experimentWorkingDirectory", Home.find(environ).path)
    service = read_service(reading, document.value)
    config = _build(reading, fields, service)
    _check_directories(reading, fields, service)
    check_keys(reading, service)
    _check_fields(reading, config)
    _check_algorithms(reading, fields)
    check_goals(reading, fields)
    tuner = _algorithm(fields, "tuner")
    valid = space.check(reading, tuner)
    check_scheduler(reading, fields, space_is_valid=valid)
    custom = _is_custom(tuner)
    feasible = None
    if config is not None and (valid or custom):
        before = len(reading.problems)
        feasible = check_sets(reading, config, custom=custom, space_is_valid=valid)
        if len(reading.problems) == before:
            check_needs(reading, config, space_is_valid=valid)
    if config is not None:
        warn_of_goal(reading, config)
        warn_of_gpus(reading, config)
        if service is not None:
            warn_of_command(reading, config, service)
    if reading.problems or config is None:
        problems = [document.in_own_words(problem) for problem in reading.problems]
        raise ConfigError(sorted(problems, key=lambda problem: (str(problem.file), problem.line or 0)))
    warnings = [*document.warnings, *map(document.in_own_words, reading.warnings)]
    return Loaded(config, tuple(warnings), feasible, converted)


def _check_fields(reading: Reading, config: ExperimentConfig | None) -> None:
    """Make the checks that need only the configuration itself."""
    check_capacity(reading, config)
    check_checkpoints(reading, config)
    check_storage(reading, config)
    check_priority(reading, config)
    check_preemptible(reading, config)
    check_launch(reading, config)
    check_shared_storage(reading, config)
    check_sinks(reading, config.sinks if config else None)
    check_spill(reading, config)


def read_canonical(raw: Mapping[str, Any]) -> ExperimentConfig:
    """Return the configuration from its canonical form, in which it is stored and sent over REST.

    Only types and structure are checked, not whether files and algorithms exist. The search space may be
    missing if it is stored elsewhere. Raise ConfigError.
    """
    reading = Reading()
    fields = parse(reading, _without_service(raw), _Written) or {}
    _fold_algorithms(reading, fields)
    config = _build(reading, fields, read_service(reading, raw))
    if reading.problems or config is None:
        raise ConfigError(reading.problems)
    return config


def check_config(config: ExperimentConfig, *, interpreter: Interpreter | None = None) -> tuple[Problem, ...]:
    """Check the directories, algorithms and search space that a configuration names. Return warnings.

    ``interpreter``: Python with the algorithms that the user has registered or installed. Raise ConfigError.
    ``load_config`` makes these checks too.
    """
    reading = Reading()
    fields = config.field_values()
    for role in Role:
        algorithm: AlgorithmConfig | None = fields[role]
        fields[role] = {} if algorithm is None else algorithm.model_dump(by_alias=True, exclude_unset=True)
    parts = [Part(member.service, dict(member.overrides)) for member in config.members]
    service = Service(parts, several=config.platform == "hybrid")
    _check_directories(reading, fields, service)
    check_keys(reading, service)
    _check_fields(reading, config)
    _check_algorithms(reading, fields, interpreter=interpreter)
    check_goals(reading, fields)
    valid = _SearchSpace(value=config.search_space).check(reading, fields["tuner"], interpreter=interpreter)
    check_scheduler(reading, fields, space_is_valid=valid)
    custom = _is_custom(fields["tuner"], interpreter=interpreter)
    if valid or custom:
        before = len(reading.problems)
        check_sets(reading, config, custom=custom, space_is_valid=valid)
        if len(reading.problems) == before:
            check_needs(reading, config, space_is_valid=valid)
    warn_of_goal(reading, config)
    if reading.problems:
        raise ConfigError(reading.problems)
    return tuple(reading.warnings)


def _without_service(raw: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in raw.items() if match_key(str(key)) != "trainingservice"}


def _build(reading: Reading, fields: dict[str, Any], service: Service | None) -> ExperimentConfig | None:
    if fields.get("useAnnotation") is True:
        reading.fault(("useAnnotation",), "annotations in the trial's source are not supported since NNI 3.0")
        del fields["useAnnotation"]
    retries = fields.get("maxRetries")
    if type(retries) is int:  # a single number is for both main causes
        fields["maxRetries"] = {"infrastructure": retries, "userError": retries}
    elif retries is not None and not isinstance(retries, Mapping):
        reading.fault(
            ("maxRetries",), f"must be a whole number, or a mapping of causes to numbers, not {retries!r}"
        )
        del fields["maxRetries"]
    for role in Role:
        arguments = _algorithm(fields, role).get("classArgs")
        if arguments is not None:
            fields[role]["classArgs"] = check_references(reading, arguments, (role, "classArgs"))
    check_growth(reading, fields, service)
    for command in [] if service is None else service.commands:
        fields.setdefault("trialCommand", command)
    for gang in [] if service is None else service.gangs:
        if fields.get("gang") is not None:
            reading.fault(("gang",), "cannot be used together with roles of several pods in trainingService")
        fields["gang"] = gang
    model, overrides = NO_SERVICE if service is None else service.model(fields)
    memory = fields.get("trialMemorySize")
    if isinstance(memory, Mapping):
        memory = validate(reading, GrowingMemory, memory, ("trialMemorySize",))
    values = {
        **fields,
        "trialMemorySize": memory,
        "searchSpace": fields.get("searchSpace", {}),
        "trainingService": model,
        "trainingServiceOverrides": overrides,
    }
    config = validate(reading, ExperimentConfig, values)
    if service is None or config is None:
        return None
    check_gpus(reading, config)
    check_resizing(reading, config)
    return config  # type: ignore[no-any-return]


def _algorithm(fields: Mapping[str, Any], role: str) -> dict[str, Any]:
    """Return the fields of an algorithm, or {} if the field is missing or not a mapping."""
    found = fields.get(role)
    return found if isinstance(found, dict) else {}


def _fold_algorithms(reading: Reading, fields: dict[str, Any]) -> None:
    """Move ``advisor`` to ``tuner``, as NNI does, and remove algorithms whose name is ``_none_``."""
    for role in (*Role, "advisor"):
        if _algorithm(fields, role).get("name") == _NOT_SET:
            del fields[role]
    advisor = fields.pop("advisor", None)
    if advisor is None:
        return
    if "tuner" in fields:
        reading.fault(("advisor",), "give either an advisor or a tuner, not both")
        return
    reading.note_spelling(("tuner",), str(reading.written(("advisor",))[-1]))
    fields["tuner"] = advisor


def _check_directories(reading: Reading, fields: Mapping[str, Any], service: Service | None) -> None:
    places: list[tuple[KeyPath, Any]] = [
        (("trialCodeDirectory",), fields.get("trialCodeDirectory")),
        *(((role, "codeDirectory"), _algorithm(fields, role).get("codeDirectory")) for role in Role),
    ]
    for path, part in [] if service is None else service.places():
        places.append(((*path, "trialCodeDirectory"), part.overrides.get("trialCodeDirectory")))
    for path, directory in places:
        _check_directory(reading, path, directory, directory_fault)
    working = fields.get("experimentWorkingDirectory")
    _check_directory(reading, ("experimentWorkingDirectory",), working, working_fault)


def _check_directory(
    reading: Reading, path: KeyPath, directory: Any, fault: Callable[[Path], str | None]
) -> None:
    """Report why a directory cannot be used. ``fault`` returns the reason, as the end of a sentence."""
    if not isinstance(directory, Path):
        return
    if not directory.is_absolute():  # a client has sent it; paths in files were made absolute
        reading.fault(path, f"the directory {str(directory)!r} must be an absolute path")
    elif (sentence := not_utf8(str(directory))) is not None:
        reading.fault(path, sentence)
    elif (trouble := fault(directory)) is not None:
        reading.fault(path, f"the directory {directory} {trouble}")


def _is_custom(tuner: Mapping[str, Any], *, interpreter: Interpreter | None = None) -> bool:
    """Return whether the tuner is a user's own class, which may have its own format of search space."""
    from nnimgr.dispatcher import registry

    if meant("tuner", tuner) is not None:
        return False
    if "className" in tuner:
        return True
    try:
        registry.resolve("tuner", str(tuner.get("name")), interpreter=interpreter)
    except registry.AlgorithmError:
        return False
    return True


def _check_algorithms(
    reading: Reading, fields: Mapping[str, Any], *, interpreter: Interpreter | None = None
) -> None:
    """Report errors in the names and arguments of algorithms, without running a user's code."""
    several = len(fields.get("objectives") or ()) > 1
    for role in Role:
        check_algorithm(reading, role, _algorithm(fields, role), interpreter=interpreter, several=several)
        check_own_class(reading, role, _algorithm(fields, role), interpreter=interpreter)
    tuner = meant("tuner", _algorithm(fields, "tuner"))
    if tuner is not None and tuner.advisor and _algorithm(fields, "assessor"):
        reading.warn(
            ("assessor",), f"not used: {tuner.name} is an advisor and decides itself which trials continue"
        )


def check_algorithm(
    reading: Reading,
    role: str,
    algorithm: Mapping[str, Any],
    *,
    interpreter: Interpreter | None = None,
    several: bool = False,
) -> None:
    """Report errors in the name or the arguments of an algorithm.

    ``several``: the experiment has several objectives.
    """
    from nnimgr.dispatcher import registry

    name, path = algorithm.get("name"), algorithm.get("className")
    arguments = algorithm.get("classArgs") or {}
    if not isinstance(arguments, dict):
        return
    try:
        if isinstance(name, str):
            registry.check(role, name, arguments, interpreter=interpreter, several=several)
        elif isinstance(path, str):
            directory = algorithm.get("codeDirectory")
            registry.check_class(role, path, arguments, code_directory=directory, several=several)
    except registry.AlgorithmError as error:
        for each in error.all:
            at = (role, *each.path)
            if not any(known.field == dotted(at) for known in reading.problems):
                reading.fault(at, f"{each}{number_hint_at(algorithm, each.path)}")


def check_own_class(
    reading: Reading, role: str, algorithm: Mapping[str, Any], *, interpreter: Interpreter | None = None
) -> None:
    """Report a user's class that does not exist.

    ``interpreter``: Python that will run the algorithm; None: this one. The classes of another one are not
    checked, because it may have other packages.
    """
    path, folder = algorithm.get("className"), algorithm.get("codeDirectory")
    if not isinstance(path, str) or meant(role, algorithm) is not None:
        return
    if interpreter is not None and not interpreter.is_this:
        return
    if folder is not None and (not isinstance(folder, Path) or directory_fault(folder) is not None):
        return  # the error in codeDirectory is reported
    fault = class_fault(path, folder)
    if fault is not None:
        reading.fault((role, "className"), fault)


@dataclass(slots=True)
class _SearchSpace:
    """Search space of a configuration, and the file from which it was read, for errors with a line."""

    value: Any = None
    document: Document | None = None

    @classmethod
    def find(cls, reading: Reading, fields: dict[str, Any]) -> _SearchSpace:
        """Read the search space file if one is given, and put its content into ``fields``.

        Otherwise the search space in the configuration itself is used.
        """
        file = fields.get("searchSpaceFile")
        if file is None:
            if "searchSpace" not in fields and not fields.get("useAnnotation"):
                reading.fault(("searchSpace",), "give either searchSpace or searchSpaceFile")
            return cls(value=fields.get("searchSpace"))
        if "searchSpace" in fields:
            reading.warn(("searchSpace",), "not used, since searchSpaceFile is given too")
        if not isinstance(file, Path):
            return cls()  # neither a path nor a text; the validation of the fields reports this
        if (trouble := file_fault(file)) is not None:
            reading.fault(("searchSpaceFile",), f"the file {file} {trouble}")
            return cls()
        try:
            document = read_document(file)
        except ConfigError as error:
            reading.problems.extend(error.problems)
            return cls()
        inner = Reading(document=document)
        if isinstance(document.value, Mapping):
            fields["searchSpace"] = plain(inner, document.value, ())
        else:
            inner.fault((), "the search space must be a mapping of names to parameters")
        reading.problems.extend(inner.problems)
        reading.warnings.extend(inner.warnings)
        return cls(value=fields.get("searchSpace"), document=document)

    def check(
        self, reading: Reading, tuner: Mapping[str, Any], *, interpreter: Interpreter | None = None
    ) -> bool:
        """Report errors in the search space. Return whether it is valid by NNI's rules.

        A user's own tuner may have its own format of search space, so in this case errors are only warnings.
        """
        from nnimgr.dispatcher import registry
        from nnimgr.search_space import SearchSpaceError
        from nnimgr.search_space import validate as validate_space

        if not isinstance(self.value, Mapping):
            return False
        found: Sequence[SearchSpaceError | registry.AlgorithmError] = ()
        try:
            validate_space(self.value)
            if (builtin := meant("tuner", tuner)) is not None:
                registry.check_space("tuner", builtin.name, self.value)
        except (SearchSpaceError, registry.AlgorithmError) as error:
            found = error.all
        custom = _is_custom(tuner, interpreter=interpreter)
        for each in found:
            path, sentence = each.path, f"{each}{number_hint_at(self.value, each.path)}"
            if self.document is not None:
                problem = self.document.problem(path, sentence)
            else:
                problem = reading.problem(("searchSpace", *path), sentence)
            (reading.warnings if custom else reading.problems).append(problem)
        if not self.value and not found and not custom:
            reading.warn(("searchSpace",), "is empty, so all trials run with the same parameters")
        return not found
