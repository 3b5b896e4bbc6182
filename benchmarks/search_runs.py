"""Runs of tuners on problems, seed by seed, stored in a file so that parts can be repeated."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import warnings
from pathlib import Path

from benchmarks.search_loops import NNI, OPTUNA, Nni, NniPipe, Optuna, Own, Searcher, run
from benchmarks.search_problems import Problem

CONCURRENCY = 4


class Runs:
    """The best loss of each run. Use it as a context. If ``file`` is None, nothing is stored."""

    def __init__(self, file: Path | None, *, trials: int, seeds: int) -> None:
        self.trials, self.seeds = trials, seeds
        self._file = file
        self._known: dict[str, float] = {}
        if file is not None and file.exists():
            self._known = json.loads(file.read_text(encoding="utf-8"))
        self._pipes = contextlib.ExitStack()
        self._nni: NniPipe | None = None

    def __enter__(self) -> Runs:
        return self

    def __exit__(self, *error: object) -> None:
        self._pipes.close()

    def forget(self, searcher: str) -> None:
        """Drop the stored runs of a tuner."""
        self._known = {key: best for key, best in self._known.items() if key.split("|")[0] != searcher}

    def best(self, name: str, problem: Problem) -> list[float]:
        """Return the best loss of each seed. Raise NotThere."""
        found = []
        for seed in range(self.seeds):
            key = f"{name}|{problem.name}|{self.trials}|{seed}"
            if key not in self._known:
                with warnings.catch_warnings():
                    # Models that do not converge and experimental features cause warnings.
                    warnings.simplefilter("ignore")
                    searcher = self._searcher(name, problem, seed)
                    losses = run(searcher, problem, trials=self.trials, concurrency=CONCURRENCY)
                self._known[key] = min(losses)
                self._save()
            found.append(self._known[key])
        middle = sorted(found)[len(found) // 2]
        print(f"  {name} on {problem.name}: {middle:.5g}", file=sys.stderr, flush=True)
        return found

    def nni(self) -> NniPipe:
        """Return the process of NNI's TPE. Raise NotThere."""
        if self._nni is None:
            self._nni = self._pipes.enter_context(NniPipe())
        return self._nni

    def _searcher(self, name: str, problem: Problem, seed: int) -> Searcher:
        if name == OPTUNA:
            return Optuna(problem.space, seed)
        if name == NNI:
            return Nni(self.nni(), problem.space, seed)
        return Own(name, problem.space, seed)

    def _save(self) -> None:
        if self._file is not None:
            beside = self._file.with_suffix(".new")
            beside.write_text(json.dumps(self._known, indent=0), encoding="utf-8")
            os.replace(beside, self._file)
