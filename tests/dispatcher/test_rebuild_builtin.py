"""Every built-in tuner continues after the death of its process as if nothing had happened."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from nnimgr.dispatcher import messages as m
from nnimgr.dispatcher import registry
from nnimgr.dispatcher.history import History, PastSuggestion
from tests.dispatcher.conftest import Host, MakePast
from tests.dispatcher.hosting import Hosted
from tests.dispatcher.past import EXPERIMENT, Past

MIXED = {
    "x": {"_type": "loguniform", "_value": [0.01, 10]},
    "n": {"_type": "randint", "_value": [0, 5]},
    "q": {"_type": "quniform", "_value": [0, 1, 0.25]},
    "c": {
        "_type": "choice",
        "_value": [{"_name": "a", "y": {"_type": "normal", "_value": [0, 1]}}, {"_name": "b"}],
    },
}
NUMBERS = {
    "x": {"_type": "loguniform", "_value": [0.01, 10]},
    "y": {"_type": "uniform", "_value": [-1, 1]},
    "n": {"_type": "randint", "_value": [0, 5]},
    "q": {"_type": "qnormal", "_value": [0, 1, 0.125]},
}
FINITE = {
    "n": {"_type": "randint", "_value": [0, 5]},
    "c": {"_type": "choice", "_value": ["a", "b", "c", None]},
}
BATCH = {"combine_params": {"_type": "choice", "_value": [{"n": n // 2} for n in range(40)]}}
OFTEN, RARELY = (1, 5, 8, 9, 12, 13, 17), (9, 17)
HEAVY = (
    "GP",
    "Metis",
    "SMAC",
    "CMAES",
    "QMC",
    "Optuna",
    "NSGA2",
)  # libraries whose import takes seconds
LEARNING = {"tpe_args": {"n_startup_jobs": 3}}
QUICK = {"selection_num_warm_up": 200, "selection_num_starting_points": 5}
SCENES = [
    ("Random", MIXED, {}),
    ("Random", FINITE, {}),
    ("TPE", MIXED, LEARNING),
    ("TPE", FINITE, {"optimize_mode": "maximize", **LEARNING}),
    ("TPE_legacy", MIXED, {"parallel_optimize": True, "constant_liar_type": "mean"}),
    ("Anneal", MIXED, {"parallel_optimize": True, "constant_liar_type": "mean"}),
    ("Anneal", FINITE, {}),
    ("Evolution", MIXED, {"population_size": 3}),
    ("Evolution", FINITE, {"population_size": 3}),
    ("GP", MIXED, {"cold_start_num": 3, **QUICK}),
    ("GP", FINITE, {"cold_start_num": 3, "utility": "ucb", **QUICK}),
    ("Metis", MIXED, {"cold_start_num": 3, "no_resampling": False, "exploration_probability": 0.5}),
    ("Metis", FINITE, {"cold_start_num": 3, "no_candidates": True}),
    ("CMAES", MIXED, {"population_size": 4}),
    ("CMAES", FINITE, {}),
    ("SMAC", MIXED, {}),
    ("SMAC", FINITE, {"optimize_mode": "minimize"}),
    ("QMC", MIXED, {}),
    ("QMC", FINITE, {}),
    ("GridSearch", MIXED, {}),
    ("GridSearch", FINITE, {}),
    ("Batch", BATCH, {}),
    ("NSGA2", MIXED, {"population_size": 3}),
    ("NSGA2", FINITE, {"population_size": 2, "optimize_mode": "maximize"}),
    ("Optuna", MIXED, {"sampler_args": {"n_startup_trials": 3}}),
    ("Optuna", NUMBERS, {"sampler": "CmaEs", "sampler_args": {"popsize": 4}}),
    ("Optuna", MIXED, {"sampler": "NSGAIISampler", "sampler_args": {"population_size": 2}}),
    ("Optuna", MIXED, {"sampler": "GP", "sampler_args": {"n_startup_trials": 3}}),
    ("Optuna", NUMBERS, {"sampler": "QMC", "sampler_args": {"scramble": True}}),
    ("Hyperband", MIXED, {"R": 9}),
    ("Hyperband", FINITE, {"R": 27, "optimize_mode": "minimize"}),
    ("BOHB", MIXED, {"max_budget": 9, "random_fraction": 0.1, "min_points_in_model": 2}),
    ("BOHB", FINITE, {"random_fraction": 0.1}),
    ("ASHA", MIXED, {"mode": "promotion", "eta": 2}),
    ("ASHA", MIXED, {"mode": "promotion", "searcher": "bohb", "eta": 2}),
    ("ASHA", FINITE, {"mode": "stopping", "max_budget": 30}),
    ("PBT", MIXED, {"population_size": 2, "fraction": 0.5}),
    ("PBT", FINITE, {"population_size": 2, "fraction": 0.5, "optimize_mode": "minimize"}),
]
PROMOTING = ("Hyperband", "BOHB", "PBT")  # tuners that give a set several times, and wait for trials to end


def changed(space: dict[str, Any]) -> dict[str, Any]:
    if space is BATCH:
        return {"combine_params": {"_type": "choice", "_value": [{"n": n} for n in range(-3, 30)]}}
    return {**space, "n": {"_type": "randint", "_value": [-1, 6]}}


def need(name: str, arguments: Mapping[str, Any] | None = None) -> None:
    """Skip the test if an optional library is not installed."""
    if name == "SMAC":
        pytest.importorskip("smac")
    if (arguments or {}).get("sampler") == "GP":
        pytest.importorskip("torch")


def sober(text: str) -> str:
    return json.dumps(json.loads(text), sort_keys=True)


class Experiment:
    """Records what happens in an experiment, and reports it to the tuner."""

    def __init__(self, tuner: Hosted, past: Past) -> None:
        self.tuner, self.past = tuner, past
        self.running: dict[str, tuple[int | None, str]] = {}
        self.told = self.asked_at = 0

    async def ask(self, parameter_id: int) -> str:
        """Ask for a set and return it. End trials while the tuner waits for results.

        ``asked_at`` is the last fact before the set was given.
        """
        self.tuner.ask(parameter_id, fed_to=self.told)
        while not isinstance(answer := await self.tuner.expect(object), m.Suggestion):
            if isinstance(answer, m.Answered) and answer.missing:
                assert answer.why.startswith("it waits for ")
                self.end(parameter_id % 7)
        text, self.asked_at = answer.parameters, self.past.number
        state = json.loads(answer.state or "null")
        trial_id = self.past.suggested(parameter_id, text, fed_to=self.told, state=state)
        self.running[trial_id] = (parameter_id, text)
        return text

    def end(self, value: Any, *, untried: bool = False) -> None:
        """End the oldest running trial. It fails if ``value`` is None."""
        trial_id = next(iter(self.running))
        parameter_id, text = self.running.pop(trial_id)
        self.told = self.past.ended(trial_id, value, success=value is not None, untried=untried)
        self.tuner.send(
            m.TrialFinished(
                number=self.told,
                trial_id=trial_id,
                parameter_id=parameter_id,
                parameters=text,
                text=None if value is None else json.dumps(value),
                success=value is not None,
                untried=untried,
            )
        )

    def run_by_hand(self, parameters: Any) -> None:
        self.running = {self.past.suggested(None, parameters): (None, json.dumps(parameters)), **self.running}

    def import_data(self, *records: Any) -> None:
        self.told = self.past.imported(*records)
        self.tuner.send(m.Imported(number=self.told, records=json.dumps(records)))

    def change(self, space: dict[str, Any]) -> None:
        self.told = self.past.space_changed(space)
        self.tuner.send(m.SpaceChanged(number=self.told, search_space=space))


def test_every_built_in_tuner_has_a_scene() -> None:
    assert {name for name, _, _ in SCENES} == set(registry.names("tuner"))


@pytest.mark.parametrize(("name", "space", "arguments"), SCENES)
async def test_it_goes_on(
    host: Host, make_past: MakePast, name: str, space: dict[str, Any], arguments: dict[str, Any]
) -> None:
    """Every few sets, a new process is asked again and gives the same set as the first process."""
    need(name, arguments)
    fields = {"name": name, "class_args": arguments, "search_space": space}
    past = make_past(space)
    experiment = Experiment(await host(**fields), past)
    experiment.told = past.number
    for parameter_id in range(18):
        match parameter_id:
            case 4:
                experiment.run_by_hand({"n": 2, "c": None})
                experiment.end(0.25)
            case 6:
                records = [{"parameter": {"n": n, "c": "a"}, "value": {"default": n}} for n in range(3)]
                experiment.import_data(*records, {"parameter": {"n": 7}, "value": "0.5"})
            case 8:
                experiment.end(None, untried=True)
            case 12:
                space = changed(space)
                experiment.change(space)
                experiment.end(None, untried=True)
        text = await experiment.ask(parameter_id)
        up_to = experiment.asked_at
        if parameter_id in (RARELY if name in HEAVY else OFTEN):
            again = await host(past=past, **{**fields, "search_space": space}, rebuild_to=up_to)
            again.ask(parameter_id, fed_to=up_to)
            assert await again.suggestions(1) == [text]
            await again.child.close()
        if len(experiment.running) == 2:
            experiment.end([None, float("nan"), 0.5, {"default": 1.5}, parameter_id][parameter_id % 5])


@pytest.mark.parametrize(
    ("name", "space", "arguments"),
    [scene for scene in SCENES if scene[1] in (FINITE, BATCH) and scene[0] not in PROMOTING],
)
async def test_what_was_never_tried_is_given_again(
    host: Host, make_past: MakePast, name: str, space: dict[str, Any], arguments: dict[str, Any]
) -> None:
    """The sets of untried trials, and no others, are given again, also after a rebuild."""
    need(name, arguments)
    past = make_past(space)
    fields = {"name": name, "class_args": arguments, "search_space": space}
    experiment = Experiment(await host(**fields), past)
    experiment.told = past.number
    given = [await experiment.ask(parameter_id) for parameter_id in range(20)]
    sets = BATCH["combine_params"]["_value"] if space is BATCH else map(json.loads, given)
    every = sorted(sober(json.dumps(each)) for each in sets)
    for untried in [False, True] * 10:
        experiment.end(None, untried=untried)
    again = await host(past=past, **fields)
    for tuner in (experiment.tuner, again):
        tuner.ask(*range(20, 70), fed_to=past.number)
        while not (await tuner.expect(m.Answered)).exhausted:
            pass
        found = [each.parameters for each in tuner.of_kind(m.Suggestion) if each.parameter_id >= 20]
        assert sorted(map(sober, [*given[::2], *found])) == every


async def test_only_what_is_needed_is_read(host: Host, make_past: MakePast) -> None:
    """Broken records prove that they are not read."""
    space = {"x": {"_type": "uniform", "_value": [0, 1]}}
    past = make_past(space)
    ended = past.suggested(0, "no JSON at all")
    past.ended(ended, success=False)
    still = past.suggested(1, {"x": 0.5})
    history = History(str(past.path), EXPERIMENT)
    for builtin in ("Random", "TPE"):
        tuner = registry.load(registry.find("tuner", builtin).target)(seed=0)
        events = history.events(after=0, up_to=past.number, past=tuner.needs([space]))
        suggestions = [event.trial_id for event in events if isinstance(event, PastSuggestion)]
        assert suggestions == ([still] if builtin == "TPE" else [])
    assert history.last(up_to=past.number + 5) == past.number
    history.close()
    again = await host(past=past, search_space=space)
    assert (await again.expect(m.Ready)).note is None


async def test_what_a_stop_has_cut_off_is_waited_for(host: Host, make_past: MakePast) -> None:
    """The trial's set runs again when the experiment is resumed, and keeps its place until then."""
    past = make_past(FINITE)
    fields = {"name": "Hyperband", "class_args": {"R": 3, "exec_mode": "serial"}, "search_space": FINITE}
    experiment = Experiment(await host(**fields), past)
    experiment.told = past.number
    given = [json.loads(await experiment.ask(parameter_id)) for parameter_id in range(3)]
    experiment.end(1.0)
    for trial_id in experiment.running:
        past.ended(trial_id, success=False, cut=True)
    again = await host(past=past, **fields)
    again.ask(3, fed_to=past.number)
    assert (await again.expect(m.Answered)).why.startswith("it waits for 2 trials of bracket 1, rung 1 ")
    for parameter_id, value in ((1, 3.0), (2, 2.0)):
        again.send(
            m.TrialFinished(
                number=past.number + parameter_id,
                trial_id=f"again{parameter_id}",
                parameter_id=parameter_id,
                parameters=json.dumps(given[parameter_id]),
                text=str(value),
                success=True,
            )
        )
    (promoted,) = await again.suggestions(1)
    assert json.loads(promoted) == {**given[1], "TRIAL_BUDGET": 3}
