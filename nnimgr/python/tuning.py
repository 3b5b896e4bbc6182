"""``tune``: search for good parameters of a function with one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nnimgr.python.arguments import checks_arguments
from nnimgr.python.definition import Experiment
from nnimgr.python.options import Goal, Ship, Show, check_show
from nnimgr.python.trainable import Trainable

if TYPE_CHECKING:
    from nnimgr.python.results import Results

__all__ = ["tune"]


@checks_arguments
def tune(
    trial: Trainable,
    space: Mapping[str, Any],
    *,
    maximize: Goal = None,
    minimize: Goal = None,
    trials: int | None = None,
    at_once: int | None = None,
    hours: float | None = None,
    tuner: str | Mapping[str, Any] = "TPE",
    assessor: str | Mapping[str, Any] | None = None,
    scheduler: str | Mapping[str, Any] | None = None,
    constraints: str | Sequence[str] | None = None,
    initial: Sequence[Mapping[str, Any]] | None = None,
    gpus: float | str | None = None,
    cpus: float | str | None = None,
    memory: str | int | Mapping[str, Any] | None = None,
    machines: Sequence[str | Mapping[str, Any]] | Mapping[str, Any] | None = None,
    checkpoints: int | Mapping[str, Any] | None = None,
    retries: int | Mapping[str, Any] | None = None,
    stop: Mapping[str, Any] | None = None,
    processes: int | str | None = None,
    preload: Sequence[str] | None = None,
    resident: bool = False,
    confirm_best: int | Mapping[str, Any] | None = None,
    sinks: Sequence[str | Mapping[str, Any]] | None = None,
    name: str | None = None,
    ship: Ship = "path",
    seed: int | None = None,
    config: Mapping[str, Any] | None = None,
    server: int | None = None,
    show: Show = "auto",
) -> Results:
    """Run an experiment, wait until it has ended, and return its results::

        from nnimgr import space, tune

        def train(parameters):
            return (parameters["x"] - 2) ** 2

        if __name__ == "__main__":
            results = tune(train, {"x": space.uniform(-5, 5)}, minimize=True, trials=20)
            print(results.best_params)

    - ``trial``: a function or class at the top level of a .py file, "FILE.py:NAME", "module:NAME", or a
      command. A function is called with the parameters, and with an object ``trial`` if it takes two
      arguments.
    - ``ship``: "path", or "pickle" for functions of notebooks, nested functions, lambdas and methods. They
      are sent by value with what they use; this needs cloudpickle.
    - ``maximize``, ``minimize``: True for results that are one number, or the name of a metric, or several.
    - ``trials``, ``hours``: limits. None: no limit. ``at_once``: trials that run at a time (default: 1).
    - ``tuner``, ``assessor``, ``scheduler``: a name, or ``{"name": ..., "classArgs": {...}}``.
    - ``constraints``: conditions on parameters, such as ``"x + y < 1"``. ``initial``: first parameter sets.
    - ``gpus``, ``cpus``, ``memory`` (such as "8gb"): what each trial needs. It may depend on the trial's
      parameters: ``gpus="{{ 2 if model == 'large' else 1 }}"``. On this machine, trials leave alone the GPUs
      that other programs use; ``machines={"platform": "local", "useActiveGpu": True}`` shares them.
    - ``machines``: machines over SSH, such as ``["alice@gpu1"]``, or a training service as in ``exp.yml``.
    - ``checkpoints``: how many of a trial are kept. ``retries``: how often a failed trial is tried again.
    - ``stop``: rules that end the experiment, as ``stopWhen`` in ``exp.yml``.
    - ``processes``: number of worker processes of each trial, or "gpu", "cpu" or "auto" (see ``gang`` in
      ``exp.yml``).
    - ``preload``: modules that are imported once on each machine, such as ``["torch"]``. Trials start
      faster then, because they are forked from that process. ``resident``: one process runs one trial of a
      class after another, with the method ``reset``.
    - ``confirm_best``: number of the best trials that are run again at the end, 5 times each with other seeds
      (``nni.get_trial_seed()``), or ``{"top": 3, "runs": 10}``.
    - ``sinks``: where else results are written, such as ``["csv", "tensorboard"]``. See ``sinks`` in
      ``exp.yml``.
    - ``name``: an experiment with this name is continued; after its end, this needs larger limits.
    - ``seed``: for the random choices of the tuner. ``server``: port of the server.
    - ``config``: further fields of ``exp.yml``; they must not contradict other arguments.
    - ``show``: "live", "table" or "nothing". "auto" is live in a terminal or notebook, else a table.

    Ctrl-C ends the wait, and the experiment continues. Raise ArgumentError for arguments that cannot be
    used, and Error if the experiment cannot start, or ends with an error.
    """
    check_show(show)
    given = {**locals()}
    del given["server"], given["show"]
    return Experiment(**given).start(server=server).wait(show=show)
