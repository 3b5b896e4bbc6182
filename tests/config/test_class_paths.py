"""Users' classes that do not exist are refused before an experiment is created."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from nnimgr.config.class_paths import class_fault
from tests.config.loading import MINIMAL, Faults, Load

CODE = """\
from other import Elsewhere
import json as Encoder
class Here: ...
if True:
    class Inside: ...
try:
    from fast import Quick
except ImportError:
    Quick = None
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Folder with modules of a user."""
    (tmp_path / "tuners.py").write_text(CODE)
    (tmp_path / "stars.py").write_text("from other import *\n")
    (tmp_path / "lazy.py").write_text("def __getattr__(name): ...\n")
    (tmp_path / "made.py").write_text("globals()['Made'] = type('Made', (), {})\n")
    (tmp_path / "broken.py").write_text("class :\n")
    package = tmp_path / "package" / "inner"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").write_text("raise AssertionError('it was imported')\n")
    (package / "deep.py").write_text("class Deep: ...\n")
    return tmp_path


@pytest.mark.parametrize(
    "path",
    [
        *(
            "tuners.Here",
            "tuners:Here",
            "tuners.Elsewhere",
            "tuners.Encoder",
            "tuners.Inside",
            "tuners.Quick",
        ),
        *("stars.Any", "lazy.Any", "made.Made", "package.inner.deep.Deep", "my.Tuner"),
    ],
)
def test_classes_that_exist_or_may_exist(folder: Path, path: str) -> None:
    assert class_fault(path, folder) is None
    assert "package" not in sys.modules and "tuners" not in sys.modules


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("tuner.Here", "there is no module tuner: neither in {folder} nor among the installed packages; "
         "did you mean tuners?"),
        ("package.inner.deeper.Deep", "there is no module package.inner.deeper: neither in {folder} nor"),
        ("tuners.inner.Here", "there is no module tuners.inner: neither in"),
        ("tuners.Hera", "the module tuners ({folder}/tuners.py) has no class Hera; did you mean Here?"),
        ("tuners.Xyz", "the module tuners ({folder}/tuners.py) has no class Xyz; its classes are Here"),
        ("broken.Any", "the module broken cannot be read: {folder}/broken.py, line 1: "),
    ],
)  # fmt: skip
def test_classes_that_do_not_exist(folder: Path, path: str, sentence: str) -> None:
    assert str(class_fault(path, folder)).startswith(sentence.format(folder=folder))


def test_a_class_without_a_folder_must_be_installed(faults: Faults, load: Load) -> None:
    (fault,) = faults(MINIMAL.replace("name: Random", "className: nowhere.Tuner"))
    assert fault.endswith(
        "tuner.className: there is no installed module nowhere; if it is in a folder of your own, give "
        "codeDirectory"
    )
    (fault,) = faults(MINIMAL.replace("name: Random", "className: my.Tuners"))
    assert "has no class Tuners; did you mean Tuner?" in fault
    assert load(MINIMAL.replace("name: Random", "className: my.Tuner")).config.tuner.class_name == "my.Tuner"


@pytest.mark.parametrize(
    ("number", "gpus", "warned"),
    [
        (1, "", "asks for 1 GPU, but this machine has none (nvidia-smi fails with code 9: no driver)"),
        (2, "0, GPU-a, 5, 0", "asks for 2 GPUs, but this machine has 1; trials wait until it has enough"),
        (1, "0, GPU-a, 5, 0", None),
        (0, "", None),
    ],
)
def test_more_gpus_than_this_machine_has(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, gpus: str, warned: str | None
) -> None:
    tool = tmp_path / "bin" / "nvidia-smi"
    tool.parent.mkdir()
    answer = f"case $1 in --query-gpu*) echo '{gpus}';; esac" if gpus else "echo no driver; exit 9"
    tool.write_text(f"#!/bin/sh\n{answer}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:/usr/bin:/bin")
    local = "trainingService: {platform: local, useActiveGpu: true}\n"
    text = MINIMAL.replace("trainingService:\n  platform: local\n", local)
    found = [str(each) for each in load(f"{text}trialGpuNumber: {number}\n").warnings]
    told = [each for each in found if "trialGpuNumber" in each]
    assert len(told) == (warned is not None) and all(str(warned) in each for each in told)
