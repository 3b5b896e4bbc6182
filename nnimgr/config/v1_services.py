"""Conversion of training services from NNI's first configuration format."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from nnimgr.config.document import KeyPath
from nnimgr.config.v1_sections import Section

__all__ = ["PLATFORMS", "convert_service"]

_AT = "trainingService"
_GPUS = {
    "gpuIndices": "gpuIndices",
    "maxTrialNumPerGpu": "maxTrialNumberPerGpu",
    "useActiveGpu": "useActiveGpu",
}
_RESOURCES = {"gpuNum": "trialGpuNumber", "cpuNum": "trialCpuNumber", "memoryMB": "trialMemorySize"}
_ROLE = {
    "command": "command",
    "gpuNum": "gpuNumber",
    "cpuNum": "cpuNumber",
    "memoryMB": "memorySize",
    "image": "dockerImage",
}
_MACHINE = {
    "ip": "host",
    "port": "port",
    "username": "user",
    "passwd": "password",
    "sshKeyPath": "sshKeyFile",
    "passphrase": "sshPassphrase",
    "pythonPath": "pythonPath",
    **_GPUS,
}


def convert_service(platform: str, top: Section, trial: Section) -> None:
    """Convert the sections of a platform to the field ``trainingService`` of the second format."""
    if platform == "hybrid":
        _hybrid(top, trial)
    else:
        _one(platform, top, trial, (_AT,))


def _one(platform: str, top: Section, trial: Section, at: KeyPath) -> None:
    top.put("trainingServicePlatform", (*at, "platform"), _RENAMED.get(platform, platform))
    _CONVERSIONS[platform](top, trial, at)


def _local(top: Section, trial: Section, at: KeyPath) -> None:
    found = top.inner("localConfig")
    if found is not None:
        found.move(_GPUS, at)
    if trial.take("gpuNum") and (found is None or found.take("useActiveGpu") is None):
        top.put("localConfig", (*at, "useActiveGpu"), False)  # this default differs from the second format's
    if found is not None:
        found.finish()


def _remote(top: Section, trial: Section, at: KeyPath) -> None:
    found = top.inner("remoteConfig")
    if found is not None:
        found.move({"reuse": "reuseMode"}, at)
        found.finish()
    for number, machine in enumerate(top.inner_list("machineList", required=True)):
        machine.move(_MACHINE, (*at, "machineList", number))
        if machine.take("preCommand") is not None:
            machine.fault(
                "preCommand",
                "is not run; write its commands before the trial's own in the field trial.command",
            )
        machine.finish()


def _pai(top: Section, trial: Section, at: KeyPath, *, section: str = "paiConfig") -> None:
    trial.move(
        {
            "nniManagerNFSMountPath": "localStorageMountPoint",
            "containerNFSMountPath": "containerStorageMountPoint",
            "cpuNum": "trialCpuNumber",
            "memoryMB": "trialMemorySize",
            "image": "dockerImage",
            "virtualCluster": "virtualCluster",
            "paiStorageConfigName": "storageConfigName",
            "paiConfigPath": "openpaiConfigFile",
        },
        at,
    )
    found = top.inner(section)
    if found is not None:
        found.move({"userName": "username", "token": "token", "host": "host", "reuse": "reuseMode"}, at)
        for name, field in _RESOURCES.items():
            if trial.take(name) is None:
                found.move({name: field}, at)
        found.drop(["passWord"], "has no effect: NNI's second format logs in with a token")
        found.finish()


def _aml(top: Section, trial: Section, at: KeyPath) -> None:
    trial.move({"image": "dockerImage"}, at)
    found = top.inner("amlConfig")
    if found is not None:
        names = ("subscriptionId", "resourceGroup", "workspaceName", "computeTarget")
        found.move({**{name: name for name in names}, "maxTrialNumPerGpu": "maxTrialNumberPerGpu"}, at)
        found.finish()


def _adl(top: Section, trial: Section, at: KeyPath) -> None:
    trial.move(
        {
            "image": "dockerImage",
            "cpuNum": "trialCpuNumber",
            "memorySize": "trialMemorySize",
            "namespace": "namespace",
            "imagePullSecrets": "imagePullSecrets",
            "nfs": "nfs",
            "adaptive": "adaptive",
            "checkpoint": "checkpoint",
        },
        at,
    )


def _dlts(top: Section, trial: Section, at: KeyPath) -> None:
    trial.move({"image": "dockerImage"}, at)
    found = top.inner("dltsConfig")
    if found is not None:
        names = ("dashboard", "cluster", "team", "email", "password")
        found.move({name: name for name in names}, at)
        found.finish()


def _kubeflow(top: Section, trial: Section, at: KeyPath) -> None:
    found = top.inner("kubeflowConfig", required=True)
    if found is not None:
        found.move({"operator": "operator", "apiVersion": "apiVersion"}, at)
        _storage(found, at)
        found.finish()
    for name in ("worker", "ps", "master"):
        role = trial.inner(name)
        if role is not None:
            role.move({"replicas": "replicas"}, (*at, name))
            _role(role, (*at, name))
            code = trial.take("codeDir")
            if code is not None:
                trial.put("codeDir", (*at, name, "codeDirectory"), code)


def _framework_controller(top: Section, trial: Section, at: KeyPath) -> None:
    found = top.inner("frameworkcontrollerConfig", required=True)
    if found is not None:
        found.move({"serviceAccountName": "serviceAccountName", "reuse": "reuseMode"}, at)
        _storage(found, at)
        found.finish()
    for number, role in enumerate(trial.inner_list("taskRoles", required=True)):
        place = (*at, "taskRoles", number)
        role.move({"name": "name", "taskNum": "taskNumber"}, place)
        policy = role.inner("frameworkAttemptCompletionPolicy")
        if policy is not None:
            counts = {
                "minFailedTaskCount": "minFailedTaskCount",
                "minSucceededTaskCount": "minSucceedTaskCount",
            }
            policy.move(counts, (*place, "frameworkAttemptCompletionPolicy"))
            policy.finish()
        _role(role, place)
        command = role.take("command")
        if number == 0 and command is not None:  # NNI shows the command of the first role as the trial's
            role.put("command", ("trialCommand",), command)


def _role(role: Section, at: KeyPath) -> None:
    role.move(_ROLE, at)
    role.drop(
        ["privateRegistryAuthPath"],
        "has no effect: name the Secret with platform kubernetes, in its field imagePullSecrets",
    )
    role.finish()


def _storage(found: Section, at: KeyPath) -> None:
    place = (*at, "storage")
    kind = found.take("storage")
    pvc, nfs, azure = found.take("pvc"), found.inner("nfs"), found.inner("azureStorage")
    vault = found.inner("keyVault")
    if pvc is not None:
        found.fault(
            "pvc", "storage of the type pvc cannot be used; write platform kubernetes with its field volumes"
        )
    if nfs is not None:
        found.put("nfs", (*place, "storageType"), "nfs")
        nfs.move({"server": "server", "path": "path"}, place)
        nfs.finish()
    if azure is not None:
        found.put("azureStorage", (*place, "storageType"), "azureStorage")
        azure.move({"accountName": "azureAccount", "azureShare": "azureShare"}, place)
        azure.finish()
    if vault is not None:
        vault.move({"vaultName": "keyVaultName", "name": "keyVaultKey"}, place)
        vault.finish()
    if kind is not None:
        found.put("storage", (*place, "storageType"), kind)
    found.drop(["configPath"], "has no effect: the content of pods is made from this file alone")
    found.drop(["uploadRetryCount"])


def _hybrid(top: Section, trial: Section) -> None:
    found = top.inner("hybridConfig", required=True)
    names = None if found is None else found.take("trainingServicePlatforms")
    valid = ["local", "remote", "pai", "aml"]
    if not isinstance(names, list) or not names or not set(map(str, names)) <= set(valid):
        top.fault("hybridConfig", "trainingServicePlatforms must be a list of platforms", valid=valid)
        return
    for number, name in enumerate(names):
        _one(name, top, trial, (_AT, number))


_RENAMED = {"pai": "openpai"}
_Convert = Callable[[Section, Section, KeyPath], None]
_CONVERSIONS: dict[str, _Convert] = {
    "local": _local,
    "remote": _remote,
    "kubeflow": _kubeflow,
    "frameworkcontroller": _framework_controller,
    "pai": _pai,
    "paiYarn": partial(_pai, section="paiYarnConfig"),
    "aml": _aml,
    "adl": _adl,
    "dlts": _dlts,
}
PLATFORMS = (*_CONVERSIONS, "hybrid")
