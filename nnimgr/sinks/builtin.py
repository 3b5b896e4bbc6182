"""Names, classes, arguments and libraries of the built-in sinks. Imports none of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["SINKS", "BuiltinSink"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltinSink:
    """Built-in sink. ``target``: its class, as "module:Class". ``modules``: libraries that it needs."""

    target: str
    arguments: tuple[str, ...]
    modules: tuple[str, ...] = ()


SINKS: Mapping[str, BuiltinSink] = {
    "csv": BuiltinSink(target="nnimgr.sinks.csv_files:CsvSink", arguments=("directory",)),
    "jsonl": BuiltinSink(target="nnimgr.sinks.json_lines:JsonLinesSink", arguments=("directory",)),
    "tensorboard": BuiltinSink(
        target="nnimgr.sinks.tensorboard_files:TensorBoardSink",
        arguments=("directory",),
        modules=("tensorboard",),
    ),
    "mlflow": BuiltinSink(
        target="nnimgr.sinks.mlflow_runs:MlflowSink",
        arguments=("trackingUri", "experimentName"),
        modules=("mlflow",),
    ),
    "wandb": BuiltinSink(
        target="nnimgr.sinks.wandb_runs:WandbSink",
        arguments=("directory", "project", "entity"),
        modules=("wandb",),
    ),
}
