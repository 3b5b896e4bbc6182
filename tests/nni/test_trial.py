"""The trial API: NNI's names, bytes and habits, in processes like those of trials."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import nni
import nnimgr
from nni import _trial
from tests.trial_keeper.harness import frame, oldest_python, wait_for
from trial_keeper.machine.interpreter import lay_down

ROOT = Path(nni.__file__).parent.parent
PYTHONS = [sys.executable, *filter(None, [oldest_python()])]


class Trial:
    """A trial's directory, in which code is run."""

    def __init__(self, directory: Path, python: str = sys.executable) -> None:
        self.directory = directory
        self.python = python
        (directory / ".nni").mkdir()
        (directory / ".nni" / "metrics").touch()
        self.parameter({"parameter_id": 7, "parameters": {"x": 0.5}})

    def parameter(self, record: dict[str, Any], name: str = "parameter.cfg") -> None:
        (self.directory / name).write_text(json.dumps(record))

    def environ(self, **changes: str) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "NNI_PLATFORM": "local",
            "NNI_SYS_DIR": str(self.directory), "NNI_TRIAL_JOB_ID": "TT", **changes,
        }  # fmt: skip

    def run(self, code: str, **changes: str) -> str:
        """Run code after it has got its parameters. Return its standard output."""
        done = subprocess.run(
            [self.python, "-c", "import nni\np = nni.get_next_parameter()\n" + code],
            env=self.environ(**changes), capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    def frames(self) -> bytes:
        return (self.directory / ".nni" / "metrics").read_bytes()


@pytest.fixture(params=PYTHONS)
def trial(tmp_path: Path, request: pytest.FixtureRequest) -> Trial:
    return Trial(tmp_path, request.param)


def text(value: str, kind: str = "PERIODICAL", sequence: int = 0) -> bytes:
    """Return the payload for the JSON text of a value."""
    record = {"parameter_id": 7, "trial_job_id": "TT", "type": kind, "sequence": sequence, "value": value}
    return json.dumps(record).encode() + b"\n"


def test_the_bytes_are_nnis(trial: Trial) -> None:
    out = trial.run(
        "nni.report_intermediate_result(0.5)\n"
        "nni.report_intermediate_result({'default': 0.5, '\\u00e9': 1})\n"
        "nni.report_final_result(1)\nprint(p)"
    )
    assert trial.frames() == (
        b'ME000095{"parameter_id": 7, "trial_job_id": "TT", "type": "PERIODICAL", "sequence": 0, '
        b'"value": "0.5"}\nME000126{"parameter_id": 7, "trial_job_id": "TT", "type": "PERIODICAL", '
        b'"sequence": 1, "value": '
        b'"{\\"default\\": 0.5, \\"\\\\u00e9\\": 1}"}\n' + frame(text("1", "FINAL"))
    )
    assert out == "{'x': 0.5}\n"


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("float('nan')", "NaN"),
        ("[float('inf'), -float('inf')]", "[Infinity, -Infinity]"),
        ("1e-7", "1e-07"),
        ("10**20", "100000000000000000000"),
        ("True", "true"),
        ("None", "null"),
        ("'a\"b\\n\\U0001F600'", '"a\\"b\\n\\ud83d\\ude00"'),
        ("{'default': 1, 'l': [1, (2.5, None)], 3: {}, True: []}",
         '{"default": 1, "l": [1, [2.5, null]], "3": {}, "true": []}'),
    ],
)  # fmt: skip
def test_values_are_written_as_nni_writes_them(trial: Trial, expression: str, expected: str) -> None:
    trial.run(f"nni.report_intermediate_result({expression})")
    assert trial.frames() == frame(text(expected))


def test_the_import_is_light(trial: Trial) -> None:
    heavy = "{'json', 're', 'logging', 'typing', 'subprocess', 'enum'}"
    loaded = f"import sys; print(sorted({heavy} & set(sys.modules)))"
    out = trial.run(f"nni.report_final_result({{'default': 0.1}})\n{loaded}")
    bare = [trial.python, "-c", loaded]
    assert out == subprocess.run(bare, env=trial.environ(), capture_output=True, text=True, check=True).stdout


def test_what_a_trial_logs_is_printed(trial: Trial) -> None:
    """A log without set-up is printed. If the trial sets up logging, its handlers decide."""
    log = "logging.getLogger('mine').info('lr %g', 0.5)\nlogging.getLogger('mine').debug('more')\n"
    report = "import logging\nnni.report_intermediate_result(1)\n"
    out = trial.run(report + "print('before')\n" + log)
    assert re.fullmatch(r"before\n\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\] INFO \(mine\) lr 0\.5\n", out)
    setup = "import sys; logging.basicConfig(stream=sys.stdout, format='own %(message)s', level='DEBUG')\n"
    assert trial.run(report + setup + log) == "own lr 0.5\nown more\n"
    assert trial.run("import logging\n" + setup + report + log) == "own lr 0.5\nown more\n"


def test_a_second_parameter_set_is_none_and_lets_go_of_the_first(trial: Trial) -> None:
    out = trial.run(
        "print(nni.get_current_parameter(), nni.get_current_parameter('x'))\n"
        "print(nni.get_next_parameters(), nni.get_current_parameter())\n"
        "try:\n    nni.report_final_result(1)\nexcept AssertionError as error:\n    print(error)"
    )
    assert out.splitlines() == [
        "{'x': 0.5} 0.5",
        "None None",
        "nni.get_next_parameter() needs to be called before report_final_result; its last call returned "
        "None: there was no further parameter set",
    ]
    asked = b'{"trial_job_id": "TT", "type": "REQUEST_PARAMETER", "sequence": 0, "parameter_index": 1}\n'
    assert trial.frames() == frame(asked)  # with this request, the experiment can note the fact on the trial


def test_a_report_needs_the_parameters_first(trial: Trial) -> None:
    report = "nni.report_intermediate_result(1)"
    code = f"import nni\ntry:\n    {report}\nexcept AssertionError as error:\n    print(error)"
    done = subprocess.run(
        [trial.python, "-c", code], env=trial.environ(), capture_output=True, text=True, check=True
    )
    assert done.stdout == "nni.get_next_parameter() needs to be called before report_intermediate_result\n"


REPORTS = "nni.report_intermediate_result(1)\nnni.report_final_result(2)\n"


@pytest.mark.parametrize("name", ["RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK"])
def test_only_the_first_process_of_a_distributed_trial_reports(trial: Trial, name: str) -> None:
    code = f"import sys; sys.stderr = sys.stdout\n{REPORTS}"
    said = trial.run(code, **{name: "3"})
    assert trial.frames() == b""
    assert said.count("its results are not reported") == 1 and f"{name}=3" in said
    trial.run(REPORTS, **{name: "3", "NNIMGR_REPORT_ALL_RANKS": "1"})
    assert trial.frames().count(b'"value"') == 2
    assert trial.run(code, **{name: "0"}) == "" == trial.run(code, **{name: "none"})
    assert trial.frames().count(b'"value"') == 6


def test_a_metric_that_is_too_long_is_refused(trial: Trial) -> None:
    overhead = len(text('""'))
    trial.run(
        f"nni.report_intermediate_result('a' * {999_999 - overhead})\n"
        f"try:\n    nni.report_intermediate_result('a' * {1_000_000 - overhead})\n    raise SystemExit(1)\n"
        "except AssertionError as error:\n"
        "    assert str(error) == 'Metric too long: 1000000 bytes; the limit is 999999 bytes'"
    )
    assert trial.frames()[:8] == b"ME999999" and len(trial.frames()) == 999_999 + 8


def test_dates_paths_and_sets_are_reported_in_nnis_form(trial: Trial) -> None:
    trial.run(
        "import datetime, pathlib\n"
        "when, where = datetime.date(2026, 1, 31), pathlib.Path('/x')\n"
        "nni.report_final_result({'default': 0.5, 'when': when, 'where': where, 'which': {2}})"
    )
    assert json.loads(json.loads(trial.frames()[8:])["value"]) == {
        "default": 0.5,
        "when": {"__date__": None, "year": 2026, "month": 1, "day": 31},
        "where": {"__pathlib__": "/x"},
        "which": {"__set__": [2]},
    }


def test_a_value_json_cannot_hold_is_refused(trial: Trial) -> None:
    out = trial.run(
        "for value in (object(), {(1, 2): 3}):\n    try:\n        nni.report_final_result(value)\n"
        "    except TypeError as error:\n        print(error)"
    )
    assert out.splitlines() == [
        "a metric of type object cannot be written as JSON",
        "the key (1, 2) of a metric must be a string or a number, not tuple",
    ]


def test_a_late_parameter_file_is_asked_for_and_waited_for(trial: Trial) -> None:
    (trial.directory / "parameter.cfg").unlink()
    process = subprocess.Popen(
        [trial.python, "-c", "import nni\nprint(nni.get_next_parameter())"],
        env=trial.environ(), stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    asked = b'{"trial_job_id": "TT", "type": "REQUEST_PARAMETER", "sequence": 0, "parameter_index": 0}\n'
    wait_for(lambda: trial.frames() == frame(asked), "the request")
    (trial.directory / "parameter.cfg").touch()  # empty: still being written
    trial.parameter({"parameter_id": 1, "parameters": {"y": [1, "\u00e9"]}})
    assert process.communicate(timeout=20)[0] == "{'y': [1, '\u00e9']}\n"


def test_multi_phase_reads_the_next_file(trial: Trial) -> None:
    trial.parameter({"parameter_id": 8, "parameters": {"x": 0.75}}, "parameter_1.cfg")
    out = trial.run("print(nni.get_next_parameter())\nnni.report_final_result(1)", MULTI_PHASE="true")
    assert out == "{'x': 0.75}\n"
    assert b'"parameter_id": 8' in trial.frames()


def test_multi_phase_asks_for_the_next_file(trial: Trial) -> None:
    code = "import nni\nnni.get_next_parameter()\nprint(nni.get_next_parameter())"
    process = subprocess.Popen(
        [trial.python, "-c", code], env=trial.environ(MULTI_PHASE="true"), stdout=subprocess.PIPE, text=True
    )
    wait_for(lambda: b'"parameter_index": 1' in trial.frames(), "the request")
    trial.parameter({"parameter_id": 8, "parameters": {}}, "parameter_1.cfg")
    assert process.communicate(timeout=20)[0] == "{}\n"


def test_frames_of_many_processes_do_not_mix(trial: Trial) -> None:
    trial.run(
        "import os\npids = []\nfor i in range(4):\n    pid = os.fork()\n    if pid == 0:\n"
        "        for n in range(200):\n            nni.report_intermediate_result(str(i) * 3000)\n"
        "        os._exit(0)\n    pids.append(pid)\nfor pid in pids:\n    os.waitpid(pid, 0)"
    )
    content = trial.frames()
    count = 0
    while content:
        size = int(content[2:8])
        json.loads(content[8 : 8 + size])
        content = content[8 + size :]
        count += 1
    assert count == 800


def test_outside_an_experiment_results_go_to_standard_output(tmp_path: Path) -> None:
    code = (
        "import nni, sys, warnings, logging\nout = sys.stdout\n"
        "with warnings.catch_warnings(record=True) as caught:\n    warnings.simplefilter('always')\n"
        "    assert nni.get_next_parameter() == {}\n"
        "    assert nni.get_next_parameter(default={'lr': 1}) == nni.get_current_parameter() == {'lr': 1}\n"
        "assert [each.category for each in caught] == [RuntimeWarning] and caught[0].filename == '<string>'\n"
        "nni.report_intermediate_result(0.5)\nnni.report_intermediate_result({'default': 1})\n"
        "nni.report_final_result(2)\n"
        "print(nni.get_experiment_id(), nni.get_trial_id(), nni.get_sequence_id(), nni.get_trial_seed())\n"
        "assert sys.stdout is out and not logging.getLogger().handlers"
    )
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    lines = [line.partition(" INFO (nni) ")[2] or line for line in done.stdout.splitlines()]
    assert lines == [
        "Intermediate result: 0.5  (Index 0)",
        "Intermediate result: {'default': 1}  (Index 1)",
        "Final result: 2",
        "STANDALONE STANDALONE 0 0",
    ]
    time.strptime(done.stdout[1:20], "%Y-%m-%d %H:%M:%S")


def test_outside_an_experiment_results_can_be_silenced(tmp_path: Path) -> None:
    code = (
        "import logging, nni, sys\nnni.enable_global_logging()\nlogging.getLogger('a').info('heard')\n"
        "nni.enable_global_logging(False)\nlogging.getLogger('a').info('not heard')\n"
        "nni.report_final_result(object)\nnni.silence_stdout()\nnni.report_final_result(2)\n"
    )
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    for python in PYTHONS:
        done = subprocess.run(
            [python, "-c", code], env=environ, capture_output=True, text=True, check=True, cwd=tmp_path
        )
        lines = [line.partition(" INFO ")[2] for line in done.stdout.splitlines()]
        assert lines == ["(a) heard", "(nni) Final result: <class 'object'>"]


def test_ids_come_from_the_environment(trial: Trial) -> None:
    out = trial.run(
        "print(nni.get_experiment_id(), nni.get_trial_id(), nni.get_sequence_id(), nni.get_trial_seed())",
        NNI_EXP_ID="EE", NNI_TRIAL_SEQ_ID="12", NNI_TRIAL_SEED="3",
    )  # fmt: skip
    assert out == "EE TT 12 3\n"


def test_numpy_values_become_numbers_and_arrays() -> None:
    numpy = pytest.importorskip("numpy")
    assert _trial._dumps(numpy.float64(0.5)) == "0.5"
    assert _trial._dumps(numpy.float32(0.5)) == "0.5"
    assert _trial._dumps({"default": numpy.int64(3), "b": numpy.bool_(True)}) == '{"default": 3, "b": true}'
    assert _trial._dumps(numpy.array([1.0, 2.0])) == (
        '{"__ndarray__": [1.0, 2.0], "dtype": "float64", "shape": [2]}'
    )
    assert _trial._dumps(numpy.zeros((1, 2), dtype="int32")) == (
        '{"__ndarray__": [[0, 0]], "dtype": "int32", "shape": [1, 2], "Corder": true}'
    )


@pytest.mark.parametrize("broken", ["", "{", '{"parameters": {}} x', "nul"])
def test_a_broken_record_is_an_error(broken: str) -> None:
    with pytest.raises(ValueError):
        _trial._loads(broken)


def test_the_rest_of_the_package_comes_when_it_is_named() -> None:
    from nnimgr.algorithm import NoMoreTrialError

    assert nni.NoMoreTrialError is NoMoreTrialError
    assert nni.utils.__name__ == "nni.utils"
    with pytest.raises(AttributeError, match="no_such_thing"):
        _ = nni.no_such_thing
    assert nni.__version__ == nnimgr.__version__


def test_a_name_that_there_is_not_is_said_to_be_none() -> None:
    """The message must not advise to install nnimgr, which is installed here."""
    with pytest.raises(AttributeError, match=r"^module 'nni' has no attribute 'get_trial_command'$"):
        nni.get_trial_command  # noqa: B018


def test_beside_trials_alone_there_is_what_trials_use(tmp_path: Path) -> None:
    lay_down(str(tmp_path))
    code = """
import nni
from nni.utils import merge_parameter
print(merge_parameter({"a": 1.0}, {"a": 2}), nni.load(nni.dump(nni.choice("x", [1]).search_space())))
try:
    nni.NoMoreTrialError
except AttributeError as error:
    print(error)
"""
    for python in PYTHONS:
        done = subprocess.run(
            [python, "-S", "-c", code], env={"PYTHONPATH": str(tmp_path)}, cwd=tmp_path,
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        first, second = done.stdout.splitlines()
        assert first == "{'a': 2} {'x': {'_type': 'choice', '_value': [1]}}"
        assert "install nnimgr" in second
