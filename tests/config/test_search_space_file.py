"""The search space of a configuration, inline or in a file of its own."""

from __future__ import annotations

from pathlib import Path

from tests.config.loading import GOAL, MINIMAL, Faults, Load


def test_a_search_space_file_is_json_or_yaml_and_wins(load: Load, tmp_path: Path) -> None:
    (tmp_path / "space.json").write_text('{"y": {"_type": "loguniform", "_value": [1e-5, 1]}}')
    loaded = load(MINIMAL + GOAL + "searchSpaceFile: space.json\n")
    assert loaded.config.search_space == {"y": {"_type": "loguniform", "_value": [1e-5, 1]}}
    assert loaded.config.canonical()["searchSpaceFile"] == str(tmp_path / "space.json")
    assert [str(warning) for warning in loaded.warnings] == [
        "exp.yml:1:1: searchSpace: not used, since searchSpaceFile is given too"
    ]
    (tmp_path / "space.json").write_text("y: {_type: choice, _value: [a]}")
    assert load(MINIMAL + "searchSpaceFile: space.json\n").config.search_space["y"]["_value"] == ["a"]


def test_a_fault_in_a_search_space_file_points_there(faults: Faults, tmp_path: Path) -> None:
    space = tmp_path / "space.yml"
    space.write_text("a: {_type: choice, _value: [1]}\nb:\n  _type: uniform\n  _value: [1e-5, 1]\n")
    text = MINIMAL.replace(
        "searchSpace:\n  x: {_type: uniform, _value: [0, 1]}", "searchSpaceFile: space.yml"
    )
    (fault,) = faults(text)
    assert fault == (
        f"{space}:4:12: b._value[0]: the lower bound of uniform must be a number, not '1e-5'; "
        "YAML reads 1e-5 as text, write it with point and sign: 1.0e-5"
    )
    space.write_text("- 1\n")
    assert faults(text) == [f"{space}:1:1: the search space must be a mapping of names to parameters"]


def test_all_faults_of_a_search_space_are_found_at_once(faults: Faults, tmp_path: Path) -> None:
    space = tmp_path / "space.yml"
    space.write_text("a: {_value: [1]}\nb:\n  _type: uniform\n  _value: [2, 1]\n")
    inline = "searchSpace:\n  x: {_type: uniform, _value: [0, 1]}"
    found = faults(MINIMAL.replace(inline, "searchSpaceFile: space.yml") + "trialNumber: 1\n")
    assert [fault.rpartition(": ")[0] for fault in found[:2]] == [f"{space}:1:1: a", f"{space}:4:3: b._value"]
    assert len(found) == 3
    found = faults(MINIMAL.replace(inline, "searchSpace:\n  x: 1\n  y: 2"))
    assert [fault.split(": ")[1] for fault in found] == ["searchSpace.x", "searchSpace.y"]


def test_a_file_that_is_named_json_is_refused_as_json(faults: Faults, tmp_path: Path) -> None:
    space = tmp_path / "space.json"
    space.write_text('{\n\t"x": {"_type": "uniform", "_value": [0, 1]}\n\t"y": {}\n}')
    text = MINIMAL.replace(
        "searchSpace:\n  x: {_type: uniform, _value: [0, 1]}", "searchSpaceFile: space.json"
    )
    assert faults(text) == [f"{space}:3:2: not JSON: expecting ',' delimiter"]


def test_an_empty_search_space_is_a_mapping(load: Load) -> None:
    text = MINIMAL.replace("\n  x: {_type: uniform, _value: [0, 1]}", " {}")
    loaded = load(text)
    assert loaded.config.search_space == {}
    assert "searchSpace: is empty, so all trials run with the same parameters" in str(loaded.warnings[0])


def test_a_tuner_of_the_users_may_read_spaces_in_its_own_way(load: Load) -> None:
    text = MINIMAL.replace("name: Random", "className: my.Tuner").replace("uniform", "fractal")
    loaded = load(text)
    assert loaded.config.search_space["x"]["_type"] == "fractal"
    assert "searchSpace.x._type: must be one of" in str(loaded.warnings[0])
