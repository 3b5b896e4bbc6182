"""The kinds of sources from which trials can be imported, and their readers."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from nnimgr.importing.csv_files import read_csv
from nnimgr.importing.nni_files import read_nni
from nnimgr.importing.optuna_storage import read_optuna
from nnimgr.importing.ray_results import read_ray
from nnimgr.importing.trials import Foreigners, Wanted
from nnimgr.importing.wandb_runs import read_wandb

__all__ = ["READERS", "read_source"]

READERS: Mapping[str, Callable[[str, Wanted], Foreigners]] = {
    "csv": read_csv,
    "nni": read_nni,
    "optuna": read_optuna,
    "ray": read_ray,
    "wandb": read_wandb,
}


def read_source(kind: str, source: str, wanted: Wanted) -> Foreigners:
    """Return the trials of a source, without changing it. Raise SourceError."""
    return READERS[kind](source, wanted)
