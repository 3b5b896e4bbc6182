"""One search with a number of trials, some of them pending at any time. The oldest pending trial ends next.

A tuner is a built-in one, by its name in the registry, or a peer. Optuna runs in a loop in this process.
NNI's TPE runs in a separate interpreter (``peers/run_nni_tpe``).
"""

from __future__ import annotations

import contextlib
import json
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.ground import plain_environ
from benchmarks.peers.setup import interpreter
from benchmarks.search_problems import Parameters, Problem, SearchSpace
from nnimgr import search_space as spaces
from nnimgr.algorithm import Tuner
from nnimgr.dispatcher import registry

OPTUNA, NNI = "Optuna's multivariate TPE", "NNI 3.0's TPE"


class NotThere(Exception):
    """Error: the tuner cannot be run here. The message says why."""


class Searcher(ABC):
    """Suggests parameter sets for one problem."""

    @abstractmethod
    def ask(self, number: int) -> Parameters:
        """Return the set with this number. Numbers begin at 0."""

    @abstractmethod
    def tell(self, number: int, parameters: Parameters, loss: float) -> None: ...


def run(searcher: Searcher, problem: Problem, *, trials: int, concurrency: int) -> list[float]:
    """Run a search. Return the losses in the order in which the searcher learned them."""
    pending: list[tuple[int, Parameters]] = []
    losses: list[float] = []
    for number in range(trials + concurrency):
        if len(pending) == concurrency or number >= trials:
            if not pending:
                break
            done, parameters = pending.pop(0)
            losses.append(problem.loss(parameters))
            searcher.tell(done, parameters, losses[-1])
        if number < trials:
            pending.append((number, searcher.ask(number)))
    return losses


# ---- ours ------------------------------------------------------------------------------------------------


def tuner(name: str, seed: int, **arguments: Any) -> Tuner:
    """Return a built-in tuner. Raise NotThere."""
    try:
        builtin = registry.find("tuner", name)
        given = {"optimize_mode": "minimize", "seed": seed}
        known = {key: value for key, value in given.items() if key in builtin.arguments}
        made = registry.load(builtin.target)(**known, **arguments)
    except (registry.AlgorithmError, ModuleNotFoundError) as error:
        raise NotThere(str(error)) from error
    assert isinstance(made, Tuner)
    return made


class Own(Searcher):
    """Searcher with one of our tuners."""

    def __init__(self, name: str, space: SearchSpace, seed: int) -> None:
        self.tuner = tuner(name, seed)
        self.tuner.update_search_space(space)

    def ask(self, number: int) -> Parameters:
        return dict(json.loads(json.dumps(self.tuner.generate_parameters(number))))

    def tell(self, number: int, parameters: Parameters, loss: float) -> None:
        self.tuner.receive_trial_result(number, parameters, loss)
        self.tuner.trial_end(number, True)


# ---- Optuna ----------------------------------------------------------------------------------------------


class Optuna(Searcher):
    """Searcher with Optuna's ``study.ask`` and ``study.tell`` and its storage in memory.

    With nested choices, the sampler uses groups. Otherwise Optuna models nested parameters one at a time.
    """

    def __init__(self, space: SearchSpace, seed: int) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._space = spaces.parse(space)
        nested = any(isinstance(spec, spaces.Nested) for _, spec in self._space.parameters)
        sampler = optuna.samplers.TPESampler(multivariate=True, group=nested, constant_liar=True, seed=seed)
        self.study = optuna.create_study(sampler=sampler)
        self._trials: dict[int, Any] = {}

    def ask(self, number: int) -> Parameters:
        self._trials[number] = trial = self.study.ask()
        return suggested(trial, self._space, "")

    def tell(self, number: int, parameters: Parameters, loss: float) -> None:
        self.study.tell(self._trials.pop(number), loss)


def suggested(trial: Any, space: spaces.Space, prefix: str) -> dict[str, Any]:
    """Return a parameter set for a space without normal distributions, in the way of Optuna's users."""
    found: dict[str, Any] = {}
    for name, spec in space.parameters:
        path = prefix + name
        match spec:
            case spaces.Choice(options):
                found[name] = trial.suggest_categorical(path, options)
            case spaces.Nested(options):
                chosen = trial.suggest_categorical(path, [option for option, _ in options])
                inner = dict(options)[chosen]
                found[name] = {"_name": chosen, **suggested(trial, inner, f"{path}.{chosen}.")}
            case spaces.Numeric(type=spaces.ParameterType.RANDINT, a=a, b=b):
                found[name] = trial.suggest_int(path, int(a), int(b) - 1)
            case spaces.Numeric(type=kind, a=a, b=b, q=q):
                found[name] = trial.suggest_float(path, a, b, step=q, log=kind.logarithmic)
    return found


# ---- NNI -------------------------------------------------------------------------------------------------


class Nni(Searcher):
    """Searcher with NNI's tuner at the other end of a pipe."""

    def __init__(self, pipe: NniPipe, space: SearchSpace, seed: int) -> None:
        self._pipe = pipe
        pipe.send({"new": {"space": space, "seed": seed}})

    def ask(self, number: int) -> Parameters:
        return dict(self._pipe.send({"ask": number}))

    def tell(self, number: int, parameters: Parameters, loss: float) -> None:
        self._pipe.send({"tell": [number, parameters, loss]})


class NniPipe:
    """The process of NNI's interpreter. Use it as a context. Raises NotThere."""

    def __init__(self) -> None:
        python = interpreter("nni")
        if python is None:
            raise NotThere("peer not installed")
        program = Path(__file__).parent / "peers" / "run_nni_tpe.py"
        self._process = subprocess.Popen(
            [str(python), str(program)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=plain_environ(),
            text=True,
        )

    def __enter__(self) -> NniPipe:
        return self

    def __exit__(self, *error: object) -> None:
        with contextlib.suppress(BrokenPipeError):
            self._process.communicate()

    def send(self, order: Mapping[str, Any]) -> Any:
        """Send an order and return its answer."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())
