"""The scheduler in a configuration: what is read, kept and refused, with the line of each error."""

from __future__ import annotations

from pathlib import Path

import pytest

from nnimgr.config import check_config, read_canonical
from nnimgr.config.problems import ConfigError
from tests.config.loading import GOAL, MINIMAL, Faults, Load

REPLAY = MINIMAL + GOAL + "scheduler: {name: PBTReplay, classArgs: {schedule: plan.yml}}\n"


def test_it_is_kept_in_the_canonical_configuration(load: Load) -> None:
    text = MINIMAL + GOAL + "scheduler: {NAME: asha, class_args: {eta: 2}}\nassessor: {name: Medianstop}\n"
    loaded = load(text)
    assert loaded.warnings == () and loaded.config.canonical()["scheduler"] == {
        "name": "asha",
        "classArgs": {"eta": 2},
    }
    assert read_canonical(loaded.config.canonical()).scheduler == loaded.config.scheduler
    assert load(MINIMAL + GOAL + "scheduler: {name: _none_}\n").config.scheduler is None
    assert "scheduler" not in load(MINIMAL + GOAL).config.canonical()


def test_a_class_of_the_users_own_is_read(load: Load, tmp_path: Path) -> None:
    scheduler = load(
        MINIMAL + GOAL + "scheduler: {className: mine.Mine, codeDirectory: .}\n"
    ).config.scheduler
    assert scheduler is not None
    assert (scheduler.class_name, scheduler.code_directory) == ("mine.Mine", tmp_path)


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        (
            "scheduler: {name: PBX}",
            "exp.yml:10:13: scheduler.name: there is no built-in scheduler 'PBX'; valid names are ASHA, "
            "HyperBand, PBT, PB2, PBTReplay, Resources; did you mean PBT?",
        ),
        (
            "scheduler:\n  name: ASHA\n  classArgs: {stop: 3}",
            "exp.yml:12:15: scheduler.classArgs.stop: the argument stop of ASHA must be true or false, not 3",
        ),
        (
            "scheduler: {name: PBT, classArgs: {mutations: {x: {_type: uniform, _value: [1]}}}}",
            "exp.yml:10:68: scheduler.classArgs.mutations.x._value: uniform takes 2 numbers (lower bound, ",
        ),
        (
            "scheduler: {name: PBT, classArgs: {mutations: {x: [1, {_name: 2}]}}}",
            "exp.yml:10:52: scheduler.classArgs.mutations.x[0]: must be a mapping with ",
        ),
        (
            "scheduler: {name: ASHA, classArgs: {optimize_mode: minimize}}",
            "scheduler.classArgs.optimize_mode: is minimize, but 'goal' in line 9 is maximize",
        ),
        (
            "scheduler: {className: mine.Mine, codeDirectory: nowhere}",
            "scheduler.codeDirectory: the directory ",
        ),
        (
            "scheduler: {name: ASHA}\nmultiPhase: true",
            "exp.yml:10:1: scheduler: 'scheduler' is not for 'multiPhase', whose trials get several ",
        ),
        ("schedular: {name: ASHA}", "unknown field; did you mean 'scheduler'?"),
    ],
)
def test_what_is_refused(faults: Faults, lines: str, fault: str) -> None:
    (found,) = faults(MINIMAL + GOAL + lines + "\n")
    assert fault in found


def test_parameters_of_a_tuners_own_format_cannot_be_changed(load: Load, faults: Faults) -> None:
    own = MINIMAL.replace("  name: Random", "  className: mine.Mine\n  codeDirectory: .")
    own = own.replace("{_type: uniform, _value: [0, 1]}", "[0, 1]") + GOAL
    (found,) = faults(own + "scheduler: {name: PB2}\n")
    assert found.endswith(
        "scheduler: PB2 cannot change parameters in a search space of the tuner's own format: give "
        "classArgs.mutations, the parameters that it may change"
    )
    load(own + "scheduler: {name: PBT, classArgs: {mutations: {x: [1, 2]}}}\n")
    load(own + "scheduler: {name: ASHA}\n")


def test_a_mutation_that_is_no_parameter_is_a_warning(load: Load) -> None:
    (warning,) = load(
        MINIMAL + GOAL + "scheduler: {name: PBT, classArgs: {mutations: {y: [1, 2]}}}\n"
    ).warnings
    assert str(warning) == (
        "exp.yml:10:48: scheduler.classArgs.mutations.y: the search space has no parameter y. Is "
        "the name misspelt? Only trials that users add with a parameter y will be changed in it"
    )


def test_a_scheduler_that_wants_the_opposite_of_the_tuner_is_a_warning(load: Load) -> None:
    text = MINIMAL.replace("Random", "TPE\n  classArgs: {optimize_mode: minimize}")
    (warning,) = load(text + "scheduler: {name: ASHA}\n").warnings
    assert str(warning).startswith("exp.yml:10:1: scheduler: ASHA expects results to be maximized, but TPE")
    (warning,) = load(text.replace("TPE", "Hyperband") + "scheduler: {name: ASHA}\n").warnings
    assert "scheduler: ASHA expects" in str(warning)
    (warning,) = check_config(load(text + "scheduler: {name: ASHA}\n").config)
    assert warning.field == "scheduler"


def test_a_schedule_is_read_from_its_file(load: Load, tmp_path: Path) -> None:
    (tmp_path / "plan.yml").write_text("- {reports: 5, parameters: {lr: 0.1}}\n")
    config = load(REPLAY).config
    assert config.scheduler is not None
    assert config.scheduler.class_args == {"schedule": [{"reports": 5, "parameters": {"lr": 0.1}}]}
    assert check_config(config) == ()


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (
            "- {reports: 5}\n",
            "plan.yml:1:1: the schedule of PBTReplay must be a list of {reports, parameters} (item 1",
        ),
        ("- {reports: 5, parameters: {lr: .nan}}\n", "[0].parameters.lr: nan is not allowed here"),
        ("{", "plan.yml:1:2: "),
        (None, "exp.yml:10:42: scheduler.classArgs.schedule: the file "),
    ],
)
def test_errors_in_the_file_are_told_with_their_place(
    faults: Faults, tmp_path: Path, content: str | None, fault: str
) -> None:
    if content is not None:
        (tmp_path / "plan.yml").write_text(content)
    found = faults(REPLAY)
    assert any(fault in each for each in found), found


def test_a_stored_configuration_names_no_file(load: Load, tmp_path: Path) -> None:
    (tmp_path / "plan.yml").write_text("- {reports: 5, parameters: {lr: 0.1}}\n")
    raw = load(REPLAY).config.canonical()
    raw["scheduler"]["classArgs"]["schedule"] = str(tmp_path / "plan.yml")
    with pytest.raises(ConfigError, match="argument schedule of PBTReplay must be a list of"):
        check_config(read_canonical(raw))
