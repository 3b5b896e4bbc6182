"""Study: a search whose trials this program runs itself ("ask and tell")."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from nnimgr.client.waits import say
from nnimgr.home import Home
from nnimgr.python import space as spaces
from nnimgr.python.arguments import checks_arguments
from nnimgr.python.asked import Array, AskedTrial, Value, takes_trial
from nnimgr.python.connection import Connection
from nnimgr.python.definition import (
    defaulted_fields,
    goal_fields,
    id_of,
    merged_config,
)
from nnimgr.python.errors import ArgumentError, Ended, Error, LateResult, warn
from nnimgr.python.exchange import Exchange
from nnimgr.python.options import Goal, algorithm_field, conditions_of, duration_of
from nnimgr.python.results import Results
from nnimgr.python.running import Run
from training_services.keepers.names import NO_COMMAND
from training_services.units import parse_duration

if TYPE_CHECKING:
    from nnimgr.python.trials import Trial

__all__ = ["Study", "warn_of_fewer"]

_PLATFORM = "ask"
# Fields as the default arguments set them. ``config`` may have other values for them.
_DEFAULTS = {
    "trialConcurrency": 1000,
    "tuner": {"name": "TPE"},
    "trainingService": {"platform": _PLATFORM, "lease": "60s"},
    "maxRetries": {"infrastructure": 0, "userError": 0},
}


class Study:
    """Search whose trials this program runs itself::

        study = Study({"x": space.uniform(-5, 5)}, minimize=True, name="parabola")
        for _ in range(100):
            with study.ask() as trial:
                trial.tell(trial.params["x"] ** 2)
        print(study.best_params)

    The search is an experiment of the server, with the same tuners and the same dashboard as others. Several
    programs can share it by its name. It continues when the program ends: see ``stop``.

    - ``maximize``, ``minimize``, ``tuner``, ``assessor``, ``constraints``, ``initial``, ``trials``,
      ``hours``, ``stop``, ``name``, ``seed``, ``config``, ``server``: as in ``tune``.
    - ``at_once``: largest number of trials that all programs together run at a time. Default: 1000, or as
      before if the study exists.
    - ``lease``: seconds after which a trial fails if its program has died or stands still. A thread renews
      the leases of the program's trials.
    - ``retries``: how often the parameters of such a trial are given to a program again. Default: never.

    ``id``: the experiment's id. ``run``: the experiment.
    """

    @checks_arguments
    def __init__(
        self,
        space: Mapping[str, Any],
        *,
        maximize: Goal = None,
        minimize: Goal = None,
        name: str | None = None,
        tuner: str | Mapping[str, Any] = "TPE",
        assessor: str | Mapping[str, Any] | None = None,
        constraints: str | Sequence[str] | None = None,
        initial: Sequence[Mapping[str, Any]] | None = None,
        trials: int | None = None,
        hours: float | None = None,
        at_once: int | None = None,
        lease: float = 60,
        retries: int | Mapping[str, Any] = 0,
        stop: Mapping[str, Any] | None = None,
        seed: int | None = None,
        config: Mapping[str, Any] | None = None,
        server: int | None = None,
    ) -> None:
        from nnimgr.python.starting import start

        fields: dict[str, Any] = {
            "experimentName": name,
            "searchSpace": spaces.plain(space),
            "searchSpaceConstraints": conditions_of(constraints),
            "initialParameters": None if initial is None else [dict(each) for each in initial],
            "trialCommand": NO_COMMAND,
            "trialCodeDirectory": str(Home.find().path),
            "trialConcurrency": at_once,
            "maxTrialNumber": trials,
            "maxExperimentDuration": None if hours is None else duration_of(hours),
            **goal_fields(maximize, minimize),
            "tuner": algorithm_field(tuner, seed=seed),
            "assessor": algorithm_field(assessor),
            "trainingService": {"platform": _PLATFORM, "lease": f"{_whole('lease', lease)}s"},
            "maxRetries": _retries(retries),
            "stopWhen": stop,
        }
        given = {field: value for field, value in fields.items() if value is not None}
        merged = merged_config(given, config, defaults=_DEFAULTS)
        defaulted = defaulted_fields(merged, _DEFAULTS)
        merged = {"trialConcurrency": _DEFAULTS["trialConcurrency"], **merged}
        run = start(merged, id_of(name), port=server, pickled=None, defaulted=defaulted)
        self._set(run)

    @classmethod
    def attach(cls, word: str) -> Study:
        """Return the study with this id, name or beginning of an id."""
        found = cls.__new__(cls)
        found._set(Run.attach(word))
        return found

    def _set(self, run: Run) -> None:
        connection = Connection(Home.find(), run.id)
        config = connection.get()["config"]
        service = config["trainingService"]
        if not isinstance(service, Mapping) or service.get("platform") != _PLATFORM:
            raise Error(
                f"Experiment {run.id} runs its trials itself, so a program cannot ask for them.",
                hint=f"Attach to it with nnimgr.Run.attach({run.id!r})",
            )
        self.run = run
        self.id = run.id
        # The server knows only the lease with which the study was created.
        lease_s = parse_duration(service["lease"]).total_seconds()
        self._exchange = Exchange(connection, lease_s, tuple(config.get("objectives") or ()))
        # keys and counts of requests whose trials the program has not got, for example because of Ctrl-C
        self._unanswered: dict[str, int] = {}
        self._has_said_why = False

    def __repr__(self) -> str:
        return f"<Study {self.id}: {self.run.now}>"

    @overload
    def ask(self) -> AskedTrial: ...

    @overload
    def ask(self, count: int) -> list[AskedTrial]: ...

    def ask(self, count: int | None = None) -> AskedTrial | list[AskedTrial]:
        """Return a trial to run, or with ``count`` a list of trials, in one request.

        The list has fewer trials if the study's limits allow no more. Wait while all ``at_once`` trials run,
        and while the end of another program's trial may bring one, as with ``retries``; say so once, on
        standard error. Raise Ended if the study has ended.
        """
        if count is None:
            return self._ask(1)[0]
        return self._ask(_whole("count", count))

    def tell(
        self,
        trial: AskedTrial | Sequence[AskedTrial],
        value: Value | Sequence[Value] | Array,
        *,
        ask: int = 0,
    ) -> list[AskedTrial]:
        """End a trial with its result, or a list of trials with a list or array of results, in one request.

        ``ask``: number of further trials to ask for in the same request, which are returned. They take the
        results into account. The list is empty if the study has ended.

        If a result comes too late, raise LateResult, as ``AskedTrial.tell`` does, after all other results
        were stored. The method ``ask`` then returns the further trials.
        """
        if isinstance(trial, AskedTrial):
            pairs: list[tuple[AskedTrial, Any]] = [(trial, value)]
        else:
            if not isinstance(trial, Sequence) or not all(isinstance(each, AskedTrial) for each in trial):
                raise ArgumentError(
                    "trial: must be a trial that ask() has returned, or a list of such trials"
                )
            results = value.tolist() if hasattr(value, "tolist") else value
            if not isinstance(results, Sequence) or len(results) != len(trial):
                raise ArgumentError("value: must be a list or an array with one result for each trial")
            pairs = list(zip(trial, results, strict=True))
        ends = [(each, each.end_with(result, {})) for each, result in pairs]
        answer = self._call(ends, ask)
        if answer.late is not None:
            if answer.key is not None:
                self._unanswered[answer.key] = ask
            raise answer.late
        return answer.trials

    @checks_arguments
    def optimize(self, function: Callable[..., Value | None], trials: int | None = None) -> None:
        """Run trials, one after the other: call ``function(params)`` and tell what it returns.

        A function whose second parameter has no default value, or is called ``trial``, gets the trial as this
        one, for reports. ``trials``: number of
        trials that this call runs; None: until the study ends. A trial whose function raises an exception has
        failed, and the next one follows. Warn if the study's limits allow fewer trials than that. Raise Ended
        if the study is stopped or ends by an error.
        """
        gets_trial = takes_trial(function)
        left = None if trials is None else _whole("trials", trials)
        answer = self._call([], 1)
        while answer.trials:
            (trial,) = answer.trials
            arguments = (trial.params, trial) if gets_trial else (trial.params,)
            end = trial.end_of_call(function, arguments)
            left = None if left is None else left - 1
            answer = self._call([] if end is None else [(trial, end)], 0 if left == 0 else 1)
        if answer.ended is not None:
            if self.run.status in ("STOPPED", "ERROR"):
                raise Ended(answer.ended)
            if trials is not None and left:
                warn_of_fewer(trials - left, trials, Ended(answer.ended, hint=self._how_to_continue()))

    @property
    def results(self) -> Results:
        """The results. Each use reads the newest ones from the server."""
        return self.run.results()

    @property
    def best(self) -> Trial:
        """The trial with the best result. Raises NoResult if there is none yet."""
        return self.results.best

    @property
    def best_params(self) -> Any:
        """The parameters of the best trial. Raises NoResult if there is none yet."""
        return self.results.best_params

    @property
    def best_value(self) -> float:
        """The best result. Raises NoResult if there is none yet."""
        return self.results.best_value

    def stop(self) -> None:
        """Stop the study for all programs. The same call of ``Study`` continues it."""
        self.run.stop()

    def _ask(self, count: int) -> list[AskedTrial]:
        answer = self._call([], count)
        if answer.ended is not None:
            raise Ended(answer.ended, hint=self._how_to_continue())
        return answer.trials

    def _how_to_continue(self) -> str:
        """Return what lets the study continue, after its end."""
        from nnimgr.cli.limits import used_up

        profile = Connection(Home.find(), self.id).get()
        steps = ["study.run.resume()"] if profile["status"] == "STOPPED" else []
        if used_up(profile) is not None:
            steps.append("study.run.update(trials=...) with larger limits")
        return f"To continue it: {', then '.join(steps)}" if steps else ""

    def _call(self, ends: Sequence[tuple[AskedTrial, Mapping[str, Any]]], count: int) -> _Answer:
        """Tell the ends of trials and ask for ``count`` further trials, in one request if possible.

        The first request, and further ones while no parameter set comes, have the same key. The next request
        has it, too, if this one is interrupted: so trials that the server has already given are not lost.
        """
        body: dict[str, Any] = {"tells": [{**trial.held, **end} for trial, end in ends]}
        if not count:
            return self._answer(body, ends)
        key = next((key for key, wanted in list(self._unanswered.items()) if wanted == count), None)
        if key is None or self._unanswered.pop(key, None) is None:  # another thread has taken it
            key = os.urandom(16).hex()
        holds = self._exchange.held(without=[trial for trial, _ in ends])
        body["wanted"] = {"key": key, "count": count, "holds": holds}
        try:
            return self._answer(body, ends)
        except BaseException:
            self._unanswered[key] = count
            raise

    def _answer(self, body: Any, ends: Sequence[tuple[AskedTrial, Mapping[str, Any]]]) -> _Answer:
        found = self._exchange.call(**body)
        late = None
        for trial, end in ends:
            try:
                trial.settle(end, found["gone"])
            except LateResult as error:
                late = error
        while "wanted" in body and not found["trials"] and found["ended"] is None:
            self._say_why_it_waits(found["waiting"])
            found = self._exchange.call(wanted={**body["wanted"], "holds": self._exchange.held()})
        trials = [AskedTrial(self._exchange, each) for each in found["trials"]]
        return _Answer(trials, late, found["ended"], body["wanted"]["key"] if trials else None)

    def _say_why_it_waits(self, why: str) -> None:
        """Say once why no trial comes, because a program may wait for results that only it can tell."""
        if self._has_said_why:
            return
        self._has_said_why = True
        held = self._exchange.held()
        which = "the result of 1 trial" if held == 1 else f"the results of {held} trials"
        own = f" This program has not told {which} yet." if held else ""
        say(f"Study {self.id} has no trial to give yet: {why}.{own}")


class _Answer(NamedTuple):
    """Answer to a call.

    ``trials``: those that it has got, by the request ``key``. ``late``: the last of the results that came too
    late. ``ended``: why there are no more trials.
    """

    trials: list[AskedTrial]
    late: LateResult | None
    ended: str | None
    key: str | None


def warn_of_fewer(ran: int, wanted: int, end: Ended) -> None:
    """Warn that ``optimize`` has run fewer trials than it should. ``end``: why there are no more."""
    warn(
        " ".join([f"optimize() has run {ran} of {wanted} trials, because {end.sentence}", end.hint]).rstrip()
    )


def _retries(retries: int | Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the field ``maxRetries``. A number does not count for trials that their program has ended."""
    return {"infrastructure": retries, "userError": 0} if isinstance(retries, int) else retries


def _whole(name: str, value: float) -> int:
    """Return a number from 1 up as a whole number. Raise ArgumentError."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 1 or value % 1:
        raise ArgumentError(f"{name}: must be a whole number from 1 up, not {value!r}")
    return int(value)
