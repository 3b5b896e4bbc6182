"""Configuration classes of the training services, named as in NNI.

The fields that nnimgr has added can be set, too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

from nni.experiment.config.base import ConfigBase, InvalidConfig
from nni.experiment.config.training_service import TrainingServiceConfig
from nni.experiment.config.utils import PathLike, canonical_gpu_indices, validate_gpu_indices

__all__ = [
    "AmlConfig",
    "DlcConfig",
    "FrameworkAttemptCompletionPolicy",
    "FrameworkControllerConfig",
    "FrameworkControllerRoleConfig",
    "K8sAzureStorageConfig",
    "K8sNfsConfig",
    "K8sStorageConfig",
    "KubeflowConfig",
    "KubeflowRoleConfig",
    "KubernetesConfig",
    "LocalConfig",
    "OpenpaiConfig",
    "RemoteConfig",
    "RemoteMachineConfig",
]

_IMAGE = "msranni/nni:latest"
_FIELDS_OF_OTHERS = {  # type of a cluster's storage -> fields that only other types have
    "nfs": ("azure_account", "azure_share", "key_vault_name", "key_vault_key"),
    "azureStorage": ("server", "path"),
}


@dataclass(init=False, kw_only=True)
class LocalConfig(TrainingServiceConfig):
    """Configuration of a training service that runs trials on this machine."""

    _model: ClassVar[str] = "training_services.machines.local:LocalConfig"

    platform: str = "local"
    use_active_gpu: bool | None = None
    max_trial_number_per_gpu: int = 1
    gpu_indices: list[int] | int | str | None = None
    reuse_mode: bool = False

    def _canonicalize(self, parents: list[Any]) -> None:
        super()._canonicalize(parents)
        self.gpu_indices = canonical_gpu_indices(self.gpu_indices)
        self.nni_manager_ip = None

    def _validate_canonical(self) -> None:
        super()._validate_canonical()
        validate_gpu_indices(self.gpu_indices)  # type: ignore[arg-type]
        if self.trial_gpu_number and self.use_active_gpu is None:
            raise InvalidConfig(
                "LocalConfig: set use_active_gpu to True if the GPUs also show a desktop, else to False"
            )


@dataclass(init=False, kw_only=True)
class RemoteMachineConfig(ConfigBase):
    """Configuration of one machine that is reached over SSH."""

    _model: ClassVar[str] = "training_services.ssh.config:MachineConfig"

    host: str
    port: int = 22
    user: str
    password: str | None = None
    ssh_key_file: PathLike | None = "~/.ssh/id_rsa"
    ssh_passphrase: str | None = None
    use_active_gpu: bool = False
    max_trial_number_per_gpu: int = 1
    gpu_indices: list[int] | int | str | None = None
    python_path: str | None = None

    def _canonicalize(self, parents: list[Any]) -> None:
        key_is_missing = self.ssh_key_file == type(self).ssh_key_file and not self._has_key()
        if self.password is not None or key_is_missing:
            self.ssh_key_file = None
        super()._canonicalize(parents)
        self.gpu_indices = canonical_gpu_indices(self.gpu_indices)

    def _has_key(self) -> bool:
        return Path(str(self.ssh_key_file)).expanduser().is_file()

    def _validate_canonical(self) -> None:
        super()._validate_canonical()
        if not 0 < self.port < 65_536:
            raise InvalidConfig(f"RemoteMachineConfig: port ({self.port}) is not between 1 and 65535")
        if self.max_trial_number_per_gpu < 1:
            raise InvalidConfig("RemoteMachineConfig: max_trial_number_per_gpu must be at least 1")
        validate_gpu_indices(self.gpu_indices)  # type: ignore[arg-type]
        if self.ssh_key_file is not None and not self._has_key():
            raise InvalidConfig(
                f'RemoteMachineConfig: the SSH key file "{self.ssh_key_file}" of {self.host} does not exist'
            )


@dataclass(init=False, kw_only=True)
class RemoteConfig(TrainingServiceConfig):
    """Configuration of a training service that runs trials on machines over SSH."""

    _model: ClassVar[str] = "training_services.ssh.config:RemoteConfig"

    platform: str = "remote"
    machine_list: list[RemoteMachineConfig] = field(default_factory=list)
    reuse_mode: bool = False

    def _validate_canonical(self) -> None:
        super()._validate_canonical()
        if not self.machine_list:
            raise InvalidConfig("RemoteConfig: machine_list needs at least one machine")
        if not self.trial_gpu_number and any(m.max_trial_number_per_gpu != 1 for m in self.machine_list):
            raise InvalidConfig("RemoteConfig: max_trial_number_per_gpu needs trial_gpu_number")


@dataclass(init=False, kw_only=True)
class K8sStorageConfig(ConfigBase):
    """Configuration of a Kubernetes cluster's storage. ``storage_type`` is "nfs" or "azureStorage"."""

    storage_type: str
    azure_account: str | None = None
    azure_share: str | None = None
    key_vault_name: str | None = None
    key_vault_key: str | None = None
    server: str | None = None
    path: str | None = None

    def _validate_canonical(self) -> None:
        super()._validate_canonical()
        others = _FIELDS_OF_OTHERS.get(self.storage_type)
        if others is None:
            raise InvalidConfig(
                f'K8sStorageConfig: storage_type ("{self.storage_type}") must be "azureStorage" or "nfs"'
            )
        wrong = [name for name in others if getattr(self, name) is not None]
        if wrong:
            raise InvalidConfig(f"K8sStorageConfig: storage {self.storage_type} has no {', '.join(wrong)}")


@dataclass(init=False, kw_only=True)
class K8sNfsConfig(K8sStorageConfig):
    """Configuration of a directory on an NFS server as a cluster's storage."""

    storage_type: str = "nfs"
    storage: str = "nfs"  # NNI has this field as well
    server: str
    path: str


@dataclass(init=False, kw_only=True)
class K8sAzureStorageConfig(K8sStorageConfig):
    """Configuration of a share in an Azure storage account as a cluster's storage."""

    storage_type: str = "azureStorage"
    storage: str = "azureStorage"
    azure_account: str
    azure_share: str
    key_vault_name: str
    key_vault_key: str


@dataclass(init=False, kw_only=True)
class KubeflowRoleConfig(ConfigBase):
    """Configuration of the processes that have one role in a Kubeflow job: worker, ps or master."""

    _model: ClassVar[str] = "training_services.kubernetes.kubeflow:ReplicaConfig"

    replicas: int
    command: str
    gpu_number: int | None = 0
    cpu_number: int
    memory_size: str | int
    docker_image: str = _IMAGE
    code_directory: str


@dataclass(init=False, kw_only=True)
class KubeflowConfig(TrainingServiceConfig):
    """Configuration of a training service that runs each trial as a job of Kubeflow's training operator."""

    _model: ClassVar[str] = "training_services.kubernetes.kubeflow:KubeflowConfig"

    platform: str = "kubeflow"
    operator: str
    api_version: str
    storage: K8sStorageConfig
    worker: KubeflowRoleConfig | None = None
    ps: KubeflowRoleConfig | None = None
    master: KubeflowRoleConfig | None = None
    reuse_mode: bool | None = True
    namespace: str = "default"

    def _canonicalize(self, parents: list[Any]) -> None:
        super()._canonicalize(parents)
        if self.trial_command is None:  # the roles have their own
            self.trial_command = ""

    def _validate_canonical(self) -> None:
        super()._validate_canonical()
        if self.operator not in ("tf-operator", "pytorch-operator"):
            raise InvalidConfig(
                f'KubeflowConfig: operator ("{self.operator}") must be "tf-operator" or "pytorch-operator"'
            )


@dataclass(init=False, kw_only=True)
class FrameworkAttemptCompletionPolicy(ConfigBase):
    """Numbers of failed and of succeeded tasks at which a FrameworkController job ends."""

    min_failed_task_count: int
    min_succeed_task_count: int


@dataclass(init=False, kw_only=True)
class FrameworkControllerRoleConfig(ConfigBase):
    """Configuration of the tasks that have one role in a FrameworkController job."""

    _model: ClassVar[str] = "training_services.kubernetes.kubeflow:TaskConfig"

    name: str
    docker_image: str = _IMAGE
    task_number: int
    command: str
    gpu_number: int
    cpu_number: int
    memory_size: str | int
    framework_attempt_completion_policy: FrameworkAttemptCompletionPolicy


@dataclass(init=False, kw_only=True)
class FrameworkControllerConfig(TrainingServiceConfig):
    """Configuration of a training service that runs each trial as a job of FrameworkController."""

    _model: ClassVar[str] = "training_services.kubernetes.kubeflow:FrameworkControllerConfig"

    platform: str = "frameworkcontroller"
    storage: K8sStorageConfig
    service_account_name: str | None = None
    task_roles: list[FrameworkControllerRoleConfig]
    reuse_mode: bool | None = True
    namespace: str = "default"

    def _canonicalize(self, parents: list[Any]) -> None:
        super()._canonicalize(parents)
        if self.trial_command is None:  # the roles have their own
            self.trial_command = ""


@dataclass(init=False, kw_only=True)
class KubernetesConfig(TrainingServiceConfig):
    """Configuration of a training service that runs each trial as a Kubernetes Job.

    All its fields are described in the configuration reference.
    """

    _model: ClassVar[str] = "training_services.kubernetes.config:KubernetesConfig"

    platform: str = "kubernetes"


@dataclass(init=False, kw_only=True)
class OpenpaiConfig(TrainingServiceConfig):
    """Configuration of Microsoft's OpenPAI. nnimgr checks it, but refuses to start the experiment and names
    an alternative.
    """

    platform: str = "openpai"
    host: str
    username: str
    token: str
    trial_cpu_number: int
    trial_memory_size: str | int
    storage_config_name: str
    docker_image: str = _IMAGE
    virtual_cluster: str | None = None
    local_storage_mount_point: PathLike
    container_storage_mount_point: str
    reuse_mode: bool = True
    openpai_config: dict[str, Any] | None = None
    openpai_config_file: PathLike | None = None

    def _canonicalize(self, parents: list[Any]) -> None:
        super()._canonicalize(parents)
        if "://" not in self.host:
            self.host = "https://" + self.host

    def _validate_canonical(self) -> None:
        super()._validate_canonical()
        if self.trial_gpu_number is None:
            raise InvalidConfig("OpenpaiConfig: trial_gpu_number is not set")
        if not Path(self.local_storage_mount_point).is_dir():
            raise InvalidConfig(
                f'OpenpaiConfig: local_storage_mount_point "{self.local_storage_mount_point}" '
                "is not a directory"
            )
        if self.openpai_config is not None and self.openpai_config_file is not None:
            raise InvalidConfig("OpenpaiConfig: give either openpai_config or openpai_config_file")


@dataclass(init=False, kw_only=True)
class AmlConfig(TrainingServiceConfig):
    """Configuration of Azure Machine Learning. nnimgr refuses to start an experiment with it and names an
    alternative.
    """

    platform: Literal["aml"] = "aml"
    subscription_id: str
    resource_group: str
    workspace_name: str
    compute_target: str
    docker_image: str = _IMAGE
    max_trial_number_per_gpu: int = 1


@dataclass(init=False, kw_only=True)
class DlcConfig(TrainingServiceConfig):
    """Configuration of Aliyun's deep learning containers. nnimgr refuses to start an experiment with it and
    names an alternative.
    """

    platform: Literal["dlc"] = "dlc"
    type: str = "Worker"
    image: str
    job_type: str = "TFJob"
    pod_count: int
    ecs_spec: str
    region: str
    workspace_id: str
    nas_data_source_id: str
    oss_data_source_id: str | None = None
    access_key_id: str
    access_key_secret: str
    local_storage_mount_point: str
    container_storage_mount_point: str
