"""Builds the parts of a runner from an experiment's configuration: training service, tuner, assessor and
notifier.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from nnimgr.config import ExperimentConfig, ReferenceUnresolved, resolve_secrets
from nnimgr.config.launch import preload_of
from nnimgr.config.machines import read_machines
from nnimgr.config.model import AlgorithmConfig, Member
from nnimgr.config.notification import NotificationConfig
from nnimgr.config.secrets import reveal_secrets
from nnimgr.config.shared_storage import shared_folder
from nnimgr.config.spill import one_of_several, spill_rule
from nnimgr.core.managing.folder import Surroundings
from nnimgr.core.managing.followers import Followers
from nnimgr.core.managing.notifications import Notifier, Receiver
from nnimgr.core.managing.sinks import SinkProcesses, SinkStart, folder_names
from nnimgr.core.running.algorithm_process import Child
from nnimgr.core.running.runner import ExperimentRunner
from nnimgr.core.running.search import Search
from nnimgr.dispatcher import messages as m
from nnimgr.dispatcher.forking import Zygote
from nnimgr.dispatcher.process import DispatcherChild
from nnimgr.index import seed_of
from nnimgr.rules.facts import Role
from nnimgr.rules.state import ExperimentState
from nnimgr.store.location import database_path
from training_services import registry
from training_services.base import ExperimentContext, ServiceUnavailable, TrainingService
from training_services.hybrid.building import PlatformPart, build_service
from training_services.placement.ledger import HostLedger
from training_services.ssh.config import MachineConfig
from training_services.tools import ServiceTools

_Model = TypeVar("_Model", bound=BaseModel)


class Assembly:
    """Builds training services, notifiers and searches (a search is a tuner with its assessor).

    ``tools``: resources that all experiments of the server share.
    """

    def __init__(self, tools: ServiceTools) -> None:
        self._tools = tools
        self._zygote = Zygote()

    async def close(self) -> None:
        """Close the resources that the searches (tuners with their assessors) share. Call after the last
        search has been closed.
        """
        await self._zygote.close()

    @property
    def ledger(self) -> HostLedger:
        """Return the ledger, which records for each machine the experiments that hold its resources."""
        return self._tools.ledger

    def expect(self, experiment_ids: Iterable[str]) -> None:
        """Announce experiments that are about to be opened and may hold GPUs.

        Nothing is placed on a GPU until all of these experiments have been opened.
        """
        self._tools.ledger.expect(experiment_ids)

    def holds_nothing(self, experiment_id: str) -> None:
        """Record that other experiments need not wait for this one, as it submits no earlier jobs again."""
        self._tools.ledger.rebuilt(experiment_id)

    def service(self, state: ExperimentState, directory: Path, config: ExperimentConfig) -> TrainingService:
        """Build the experiment's training service. Raise ServiceUnavailable, for example if a secret is
        missing.
        """
        try:
            around = Surroundings.read(directory)
        except OSError as error:  # for example, a deletion has failed halfway
            raise ServiceUnavailable(f"{error.filename} cannot be read: {error.strerror}") from error
        parts = []
        for member in config.members:
            context = _context(state, directory, member, around)
            kind, service = registry.create(member.platform), _revealed(member.service, around)
            parts.append(PlatformPart(member.platform, kind, context, service))
        if all(part.kind.hosts is None for part in parts):
            self.holds_nothing(state.id)

        def reveal(machine: Mapping[str, Any]) -> MachineConfig:
            (found,) = read_machines([machine])
            return _revealed(found, Surroundings.read(directory))

        return build_service(parts, self._tools, spill=spill_rule(config), reveal=reveal)

    def followers(self, directory: Path, runner: ExperimentRunner) -> Followers:
        """Build what follows the experiment: its notifier and its sinks."""
        return Followers([self._notifier(directory, runner), self._sinks(directory, runner)])

    def _sinks(self, directory: Path, runner: ExperimentRunner) -> SinkProcesses:
        def start(index: int) -> SinkStart:
            around = Surroundings.read(directory)
            sinks = runner.config.sinks or ()
            sink = sinks[index]
            return SinkStart(
                title=sink.title,
                target=sink.target,
                code=None if sink.code_directory is None else str(sink.code_directory),
                arguments=resolve_secrets(sink.class_args or {}, around.environ, around.cwd),
                directory=directory / "sinks" / folder_names([each.title for each in sinks])[index],
                database=database_path(directory),
                python=around.python,
                environ=around.environ,
                cwd=around.cwd,
                log_path=directory / "log" / "sinks.log",
            )

        return SinkProcesses(lambda: len(runner.config.sinks or ()), start)

    def _notifier(self, directory: Path, runner: ExperimentRunner) -> Notifier:
        def reveal(config: NotificationConfig) -> Receiver:
            around = Surroundings.read(directory)
            found = reveal_secrets(config, environ=around.environ, base=around.cwd, secrets=around.secrets)
            return Receiver(config=found, environ=around.environ, cwd=around.cwd)

        return Notifier(directory, lambda: runner.config.notify or (), reveal)

    def search(self, state: ExperimentState, directory: Path, runner: ExperimentRunner) -> Search:
        config = runner.config
        around = Surroundings.read(directory)
        environ = dict(around.environ)
        gpus = config.tuner_gpu_indices
        environ["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, gpus)) if gpus else ""
        environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"  # GPU numbers as nvidia-smi shows them
        environ["NNI_CHECKPOINT_DIRECTORY"] = str(directory / "checkpoint")
        environ["NNI_LOG_LEVEL"] = config.log_level.value

        def spawn(
            start: m.Start,
            on_message: Callable[[m.FromChild], None],
            on_exit: Callable[[str], None],
        ) -> Child:
            return DispatcherChild(
                start,
                python=around.python,
                environ=environ,
                cwd=directory / "log",
                log_path=directory / "log" / "dispatcher.log",
                zygote=self._zygote,
                on_message=on_message,
                on_exit=on_exit,
            )

        def tuner(state: ExperimentState, config: ExperimentConfig) -> m.Start:
            since = state.tuner_number
            # A new tuner must not read the checkpoints of the previous tuner.
            folder = f"checkpoint-{since}" if since else "checkpoint"
            start = _start(Role.TUNER, config.tuner, config, state, directory, around)
            return replace(start, since=since, checkpoint_directory=str(directory / folder))

        assessor = _assessor(config)
        return Search(
            tuner=tuner(state, config),
            new_tuner=lambda state: tuner(state, runner.config),
            assessor=_start(Role.ASSESSOR, assessor, config, state, directory, around) if assessor else None,
            scheduler=(
                _start(Role.SCHEDULER, config.scheduler, config, state, directory, around)
                if config.scheduler
                else None
            ),
            spawn=spawn,
            post=runner.post,
            pending_metrics=runner.pending_metrics,
        )


def _start(
    role: Role,
    algorithm: AlgorithmConfig,
    config: ExperimentConfig,
    state: ExperimentState,
    directory: Path,
    around: Surroundings,
) -> m.Start:
    """Build the first message to the process of an algorithm.

    Raise ReferenceUnresolved if an argument of the algorithm refers to a secret that does not exist.
    """
    builtin = algorithm.builtin(role)
    return m.Start(
        role=role.value,
        name=builtin.name if builtin else algorithm.name,
        class_name=None if builtin else algorithm.class_name,
        code_directory=str(algorithm.code_directory) if algorithm.code_directory else None,
        class_args=resolve_secrets(algorithm.class_args or {}, around.environ, around.cwd),
        search_space=state.search_space,
        experiment_id=state.id,
        database=str(database_path(directory)),
        rebuild_to=0,
        checkpoint_directory=str(directory / "checkpoint"),
        seed=seed_of(state.id),
        objectives=state.objectives,
        goal=config.stated_goal,
        constraints=tuple(config.search_space_constraints or ()),
        duplicates=config.duplicates.value if config.duplicates else None,
        resources=config.resizable if role is Role.SCHEDULER else {},
    )


def _context(
    state: ExperimentState, directory: Path, member: Member, around: Surroundings
) -> ExperimentContext:
    config = member.config
    return ExperimentContext(
        experiment_id=state.id,
        directory=directory,
        trial_command=member.job_command,
        trial_code_directory=member.job_directory,
        trial_gpu_number=member.job_gpu_number,
        python=around.python,
        environ=around.environ,
        log_level=config.log_level.value,
        multi_phase=config.multi_phase,
        nni_manager_ip=member.job_manager_ip,
        lease=config.lease_time,
        trial_cpu_number=member.job_cpu_number,
        trial_memory_size=member.job_memory_size,
        shared_folder=shared_folder(config),
        own_needs=member.own_needs,
        priority=config.priority or 0,
        preemptible=bool(config.preemptible),
        preload=preload_of(member),
        gang=config.gang_of_trials(),
        checkpoint_storage=None if config.checkpoints is None else config.checkpoints.storage,
        max_trial_duration=config.limits().max_trial_duration,
        one_of_several=one_of_several(member),
        **({} if config.silence is None else {"silent_after": config.silence}),
    )


def _assessor(config: ExperimentConfig) -> AlgorithmConfig | None:
    """Return the configuration of the assessor; None without an assessor.

    If the tuner is an advisor, the assessor is the part of the advisor that stops trials.
    """
    advisor = config.tuner.builtin(Role.TUNER)
    if advisor is None or not advisor.advisor:
        return config.assessor
    arguments = None if advisor.judge is None else advisor.judge(config.tuner.class_args or {})
    return None if arguments is None else AlgorithmConfig(name=advisor.name, class_args=arguments)


def _revealed(service: _Model, around: Surroundings) -> _Model:
    """Return the training service's configuration with all references replaced by the secrets.

    Raise ServiceUnavailable if a secret is missing.
    """
    try:
        return reveal_secrets(service, environ=around.environ, base=around.cwd, secrets=around.secrets)
    except ReferenceUnresolved as error:
        raise ServiceUnavailable(f"the training service cannot be used: {error}") from error
