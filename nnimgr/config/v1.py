"""Conversion of NNI's first configuration format (``trainingServicePlatform: local``) to the second format.

The result is then read as usual. Each value keeps its place in the user's file, so that errors name the line
and the field that the user wrote.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nnimgr.config.document import Document
from nnimgr.config.parsing import match_key
from nnimgr.config.problems import ConfigError
from nnimgr.config.v1_sections import Conversion, ConvertedDocument, Section
from nnimgr.config.v1_services import PLATFORMS, convert_service

__all__ = ["convert", "is_v1"]

_SAME_OR_RENAMED = {
    "experimentName": "experimentName",
    "searchSpacePath": "searchSpaceFile",
    "trialConcurrency": "trialConcurrency",
    "maxExecDuration": "maxExperimentDuration",
    "maxTrialNum": "maxTrialNumber",
    "maxTrialDuration": "maxTrialDuration",
    "nniManagerIp": "nniManagerIp",
    "debug": "debug",
    "logLevel": "logLevel",
    "logDir": "experimentWorkingDirectory",
    "useAnnotation": "useAnnotation",
}
_WITHOUT_EFFECT = ("versionCheck", "logCollection", "multiThread")
_NEVER_USED = ("authorName", "description")  # fields that NNI stored but never used
_OF_TRIALS = {"command": "trialCommand", "codeDir": "trialCodeDirectory", "gpuNum": "trialGpuNumber"}


def is_v1(value: Any) -> bool:
    """Return whether a file is in NNI's first format, which has the field ``trainingServicePlatform``."""
    return isinstance(value, Mapping) and any(
        match_key(str(key)) == "trainingserviceplatform" for key in value
    )


def convert(document: Document, *, partly: bool = False) -> ConvertedDocument:
    """Return a document in NNI's first format as a document in the second format.

    Raise ConfigError with all errors. ``partly``: if there are errors, return what could be converted
    instead.
    """
    conversion = Conversion(document)
    top = Section(conversion, (), document.value)
    if top.take("trainingService") is not None:
        sentence = "trainingService is of the second format, trainingServicePlatform of the first: give one"
        top.fault("trainingServicePlatform", sentence)
        return _result(conversion, partly)
    top.move(_SAME_OR_RENAMED)
    top.drop(_NEVER_USED)
    top.drop(_WITHOUT_EFFECT, "has no effect: NNI dropped this field in version 2")
    if top.take("multiPhase"):
        top.put("multiPhase", ("multiPhase",), True)
    for role in ("tuner", "assessor", "advisor"):
        _algorithm(top, role)
    platform = top.take("trainingServicePlatform")
    trial = top.inner("trial", required=True)
    if platform not in PLATFORMS:
        top.fault("trainingServicePlatform", f"unknown platform {platform!r}", valid=PLATFORMS)
    elif trial is not None:
        trial.move(_OF_TRIALS)
        _nas_mode(trial)
        convert_service(platform, top, trial)
        trial.finish()
    _shared_storage(top)
    top.finish()
    return _result(conversion, partly)


def _result(conversion: Conversion, partly: bool) -> ConvertedDocument:
    if conversion.problems and not partly:
        raise ConfigError(conversion.problems)
    return ConvertedDocument(conversion)


def _algorithm(top: Section, role: str) -> None:
    found = top.inner(role)
    if found is None:
        return
    found.move({f"builtin{role.title()}Name": "name", "classArgs": "classArgs"}, (role,))
    file, name = found.take("classFileName"), found.take("className")
    found.move({"codeDir": "codeDirectory"}, (role,))
    if file is not None and not (isinstance(file, str) and file.endswith(".py")):
        found.fault("classFileName", f"must be the name of a Python file, such as tuner.py, not {file!r}")
    elif file is not None and name is not None:
        module = file.removesuffix(".py").strip("./").replace("/", ".")
        found.put("className", (role, "className"), f"{module}.{name}")
    elif name is not None or file is not None:
        missing = "classFileName" if file is None else "className"
        found.fault(missing, "required, but not given: className and classFileName name a class of your own")
    found.move({"gpuIndices": "tunerGpuIndices"})
    if found.take("includeIntermediateResults"):
        found.warn(
            "includeIntermediateResults",
            "has no effect: NNI dropped this field in version 2; only final results reach the tuner",
        )
    found.finish()


def _nas_mode(trial: Section) -> None:
    mode = trial.take("nasMode")
    if mode is not None:
        trial.fault("nasMode", f"{mode!r}: searches for network architectures (NAS) cannot be run")


def _shared_storage(top: Section) -> None:
    storage = top.inner("sharedStorage")
    if storage is not None:
        names = (
            *("storageType", "localMountPoint", "remoteMountPoint", "localMounted", "nfsServer"),
            *("exportedDirectory", "storageAccountName", "storageAccountKey", "containerName"),
        )
        storage.move(dict(zip(names, names, strict=True)), ("sharedStorage",))
        storage.finish()
