"""Puts together what a runner needs from an experiment's configuration: its service, tuner and assessor."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from nnimgr.config import ExperimentConfig, read_canonical, resolve_secrets
from nnimgr.config.model import AlgorithmConfig
from nnimgr.core.folder import Surroundings
from nnimgr.core.runner import ExperimentRunner
from nnimgr.core.search import Child, Search
from nnimgr.core.state import ExperimentState
from nnimgr.dispatcher import messages as m
from nnimgr.dispatcher.process import DispatcherChild
from nnimgr.store.writer import database_path
from training_services import registry
from training_services.base import ExperimentContext, TrainingService
from training_services.keeper_service import ServiceTools


class Assembly:
    """Makes services and searches. ``tools`` is what all experiments of the server share."""

    def __init__(self, tools: ServiceTools) -> None:
        self._tools = tools

    def expect(self, experiment_ids: Iterable[str]) -> None:
        """These are about to be opened and may hold GPUs: nothing is placed on any until all have."""
        self._tools.ledger.expect(experiment_ids)

    def holds_nothing(self, experiment_id: str) -> None:
        """One of those expected has no jobs, or will not be opened after all."""
        self._tools.ledger.rebuilt(experiment_id)

    def service(self, state: ExperimentState, directory: Path) -> TrainingService:
        config = _config(state)
        around = Surroundings.read(directory)
        context = ExperimentContext(
            experiment_id=state.id,
            directory=directory,
            trial_command=config.job_command,
            trial_code_directory=config.job_directory,
            trial_gpu_number=config.job_gpu_number,
            python=around.python,
            environ=around.environ,
            log_level=config.log_level.value,
            multi_phase=config.multi_phase,
            **({} if config.silence is None else {"silent_after": config.silence}),
        )
        return registry.service_class(config.platform)(context, config.training_service, self._tools)

    def search(self, state: ExperimentState, directory: Path, runner: ExperimentRunner) -> Search:
        config = _config(state)
        around = Surroundings.read(directory)
        environ = dict(around.environ)
        gpus = config.tuner_gpu_indices
        environ["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, gpus)) if gpus else ""
        environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"  # numbers as nvidia-smi gives them
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
                on_message=on_message,
                on_exit=on_exit,
            )

        def start(role: str, algorithm: AlgorithmConfig) -> m.Start:
            return m.Start(
                role=role,
                name=algorithm.name,
                class_name=algorithm.class_name,
                code_directory=str(algorithm.code_directory) if algorithm.code_directory else None,
                class_args=resolve_secrets(algorithm.class_args or {}, around.environ, around.cwd),
                search_space=state.search_space,
                experiment_id=state.id,
                database=str(database_path(directory)),
                rebuild_to=0,
                checkpoint_directory=str(directory / "checkpoint"),
                seed=zlib.crc32(state.id.encode()),
            )

        return Search(
            tuner=start("tuner", config.tuner),
            assessor=start("assessor", config.assessor) if config.assessor else None,
            spawn=spawn,
            post=runner.post,
            pending_metrics=runner.pending_metrics,
        )


def _config(state: ExperimentState) -> ExperimentConfig:
    plain: dict[str, Any] = {**state.config, "searchSpace": dict(state.search_space)}
    return read_canonical(plain)
