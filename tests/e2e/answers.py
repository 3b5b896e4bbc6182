"""One experiment whose trials report whatever a trial can, and what NNI's routes say of it.

Ids, instants, ports and places differ between any two runs of it. They are named alike before answers are
compared, and nothing else is; what then still differs is a difference. ``python -m benchmarks.nni_answers``
asks NNI's own manager, and records what it says.
"""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nnimgr.home import Home
from tests.e2e.product import Product

BASE = "/api/v1/nni"
TIMEOUT_S = 120.0
AROUND = 120  # characters shown around a difference
IMPORTED = (
    '[{"parameter":{"x": 1.0, "é": 1e-7, "2": 0, "1": []}, "value": 0.10}, {"parameter":{},"value":{}}]'
)

TRIAL = r"""
import sys, time, warnings
import numpy
import nni

warnings.simplefilter("ignore")  # the SDK warns of what numpy has
NAN, INFINITY = float("nan"), float("inf")
NUMBERS = [0, 1, -1, 2**31, 2**53 + 1, 10**30, 0.1, -0.0, 1.0, 1e-5, 1e-7, 5e-324, 1.7976931348623157e308,
           1e16, 1e21, 123456789.123456789, NAN, INFINITY, -INFINITY, True, False, None]
TEXTS = ["", "text", "\u00e9 \u2603 \U0001f600", "\ud83d alone", "\x00\x1f\x7f\u2028\u2029 \\ / \" ' \n\t",
         "NaN", "1", "NNISDK_MEb'x'", "ME000001", "%s {} ${x} `x`", "<b>&amp;</b>"]
DICTS = [{"default": 0.36, "other": 3}, {"no default": 1}, {}, [], [1, [2, [3]]],
         {"default": -0.0, "\u00e9": [1, None, 1e-7], "10": 1, "2": {}, "": "empty"},
         {"default": {"deep": {"deeper": [[], {}, [[1.0]]]}}}, {"__proto__": 1, "constructor": 2},
         {"default": NAN, "list": [INFINITY, True]}]
ARRAYS = [numpy.float32(0.1), numpy.float64(1e-300), numpy.int64(2**62), numpy.bool_(True),
          numpy.float16("nan"), numpy.array([1.5, 2.5]),
          {"default": numpy.int8(-3), "a": numpy.zeros((2, 2))}]

def some(values, first, count):
    return [values[(first + number) % len(values)] for number in range(count)]

def slowly(report):
    def reporting(value):
        report(value)
        time.sleep(0.02)  # NNI's database has several threads: a burst lies there in an order of chance
    return reporting

given = nni.get_next_parameter()
case = nni.get_sequence_id()
kind, turn = case % 10, case // 10
print("trial", case)
intermediate, final = slowly(nni.report_intermediate_result), slowly(nni.report_final_result)
if kind == 0:    # numbers
    for value in some(NUMBERS, turn, len(NUMBERS)):
        intermediate(value)
    final(NUMBERS[turn])
elif kind == 1:  # a final result alone
    final(NUMBERS[10 + turn])
elif kind == 2:  # no final result
    for value in some(NUMBERS, 3 * turn, 4):
        intermediate(value)
elif kind == 3:  # a failure after all results
    intermediate(case / 7)
    final(case / 3)
    sys.exit(1 + turn)
elif kind == 4:  # several final results, and what comes between them
    for value in some(NUMBERS, turn, 3):
        intermediate(value)
        final(value)
elif kind == 5:
    for value in some(DICTS, turn, len(DICTS)):
        intermediate(value)
    final(DICTS[turn % len(DICTS)])
elif kind == 6:  # many
    for number in range(10 + 20 * turn):
        intermediate(number / 7)
    final(1 / 7)
elif kind == 7:
    for value in some(TEXTS, turn, len(TEXTS)):
        intermediate(value)
    final(TEXTS[turn % len(TEXTS)])
elif kind == 8:  # nothing, or nothing and a failure
    sys.exit(turn % 2)
else:            # what numpy has, and what is long
    for value in some(ARRAYS, turn, len(ARRAYS)):
        intermediate(value)
    intermediate("long \u00e9" * 10 ** (1 + turn % 4))
    final(ARRAYS[turn % len(ARRAYS)])
"""

_ABOUT_ALL = (
    *("version", "check-status", "experiment", "experiment-metadata", "experiments-info"),
    *("experiment/imported-data", "job-statistics", "export-data"),
    *("trial-jobs", "trial-jobs?status=SUCCEEDED", "trial-jobs?status=FAILED", "trial-jobs?status=RUNNING"),
    *("trial-jobs?status=NOPE", "trial-jobs?status="),
    *("metric-data", "metric-data?type=PERIODICAL", "metric-data?type=FINAL", "metric-data?type=NOPE"),
    *("metric-data?type=", "metric-data/", "metric-data/zzzzz", "metric-data/zzzzz?type=FINAL"),
    *("metric-data-range/0/99", "metric-data-range/10/19", "metric-data-range/5/5", "metric-data-range/9/3"),
    *("metric-data-range/-1/0.5", "metric-data-range/3e0/0x5", "metric-data-range/%20/a"),
    *("metric-data-range/90/Infinity", "metric-data-range/100/200", "metric-data-latest"),
    "metric-data-latest/",
)
_ABOUT_ONE = (
    *("trial-jobs/{trial}", "metric-data/{trial}", "metric-data/{trial}?type=PERIODICAL"),
    *("metric-data/{trial}?type=FINAL", "metric-data/{trial}?type=NOPE"),
    *("trial-file/{trial}/stdout", "trial-file/{trial}/stderr", "trial-file/{trial}/nope"),
)
_INSTANT = re.compile(r'"(timestamp|startTime|endTime)":\d{13}\b')
_COUNTER = re.compile(r'"(execDuration|revision|port|pid)":\d+')
_MESSAGE = re.compile(r',"message":"(?:[^"\\]|\\.)*"')
_TRIAL = re.compile(r'("trialJobId":"|/trials/)(\w+)')
_NNIS_TRIALS = "/environments/local-env/trials/"
_HEADERS = ("access-control-", "content-type")
_DECODER = json.JSONDecoder()


def parameters(number: int) -> dict[str, Any]:
    """The parameter set of one trial, of all that JSON has.

    But U+2028 kills NNI's dispatcher, and ``1e-05`` without a point is a text to it, as in YAML 1.1.
    """
    values = (number, number / 8, 1.0, 2.5e-05, 1.25e-7, 1.5e16, 1.5e21, -0.0, 2**53 + 1, True, None)
    texts = ("plain", "é ☃ 😀", '" \\ \t\x7f', "")
    return {
        "n": number,
        "x": values[number % len(values)],
        "10": texts[number % len(texts)],
        "2": [values[(number + 1) % len(values)], {"deep": [[], {}]}],
        "é": {"b": 1.5, "a": texts[(number + 1) % len(texts)], "1": 0.1 * number},
    }


def config(directory: Path, python: Path, trials: int) -> dict[str, Any]:
    """Of the experiment; its trial is written into ``directory``, which is made."""
    directory.mkdir()
    (directory / "trial.py").write_text(TRIAL, encoding="utf-8")
    sets = [parameters(number) for number in range(trials)]
    return {
        "experimentName": "answers é",
        "searchSpace": {"combine_params": {"_type": "choice", "_value": sets}},
        "trialCommand": f"{python} trial.py",
        "trialCodeDirectory": str(directory),
        "trialConcurrency": 1,
        "maxTrialNumber": trials,
        "tuner": {"name": "Batch"},
        "trainingService": {"platform": "local"},
    }


def items(text: str) -> list[str]:
    """The texts of a JSON list's items; anything else is one."""
    if not text.startswith("["):
        return [text]
    found, at = [], 1
    while at < len(text) and text[at] != "]":
        _, end = _DECODER.raw_decode(text, at)
        found.append(text[at:end])
        at = end + 1  # a comma, or the end of the list
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """``headers``: by name, in lower case. ``text``: the body, with names for what differs between runs."""

    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def compared(self) -> dict[str, str]:
        """The headers that say what it is and who may read it."""
        return {name: value for name, value in sorted(self.headers.items()) if name.startswith(_HEADERS)}

    def difference(self, other: Answer) -> str:
        """What ``other`` says in its place; empty if it is the same."""
        if self.status != other.status:
            return f"status {self.status}, and not {other.status}"
        if self.compared != other.compared:
            return f"headers {self.compared}, and not {other.compared}"
        pairs = zip(self.text, other.text, strict=False)
        least = min(len(self.text), len(other.text))
        at = next((number for number, (a, b) in enumerate(pairs) if a != b), least)
        if at == len(self.text) == len(other.text):
            return ""
        start, end = max(0, at - AROUND // 2), at + AROUND
        return f"at {at}: {self.text[start:end]!r}, and not {other.text[start:end]!r}"

    def items(self) -> list[str]:
        """The texts of a list's items; anything else is one."""
        return items(self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """A server that has run the experiment. ``places``: what to call its directories and programs."""

    port: int
    places: Mapping[str, str]
    token: str | None = None

    def ask(self, method: str, route: str, body: str | None = None) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body."""
        headers = {"Content-Type": "application/json"}
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT_S)) as connection:
            encoded = None if body is None else body.encode()
            connection.request(method, f"{BASE}/{route}", body=encoded, headers=headers)
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return response.status, found, response.read()

    def status(self) -> str:
        """Of the experiment."""
        _, _, body = self.ask("GET", "check-status")
        return str(json.loads(body)["status"])

    def answers(self) -> Iterator[tuple[str, str, Answer]]:
        """What it says of the experiment, which must be done: route, path with the trial's number, answer."""
        if self.ask("POST", "experiment/import-data", IMPORTED)[0] != 200:
            raise RuntimeError("the import is refused")
        _, _, listed = self.ask("GET", "trial-jobs")
        _, _, profile = self.ask("GET", "experiment")
        trials = sorted(json.loads(listed), key=lambda trial: int(trial["sequenceId"]))
        ids = [trial["trialJobId"] for trial in trials]
        names = Names.of(json.loads(profile)["id"], ids, self.places)
        for route in _ABOUT_ALL:
            yield route, route, self._answer(route, names)
        for route in _ABOUT_ONE:
            for number, trial in enumerate(ids):
                yield route, route.format(trial=number), self._answer(route.format(trial=trial), names)

    def _answer(self, path: str, names: Names) -> Answer:
        status, headers, body = self.ask("GET", path)
        return Answer(status=status, headers=headers, text=names.plain(body))


def start(own: Product, python: Path, trials: int) -> Side:
    """Have the product begin it, with an SDK of NNI."""
    code = own.directory / "code"
    own.create("code", config(code, python, trials))
    places = {str(python): "python", str(own.home): "work", str(code): "code"}
    return Side(port=own.port, places=places, token=Home(own.home).token())


@dataclass(frozen=True, slots=True)
class Names:
    """What stands for what differs between the sides."""

    experiment: str
    trials: Mapping[str, str]
    places: Mapping[str, str]

    @classmethod
    def of(cls, experiment: str, trials: Sequence[str], places: Mapping[str, str]) -> Names:
        """``trials``: their ids, by sequence."""
        return cls(experiment, {trial: f"trial {number}" for number, trial in enumerate(trials)}, places)

    def plain(self, body: bytes) -> str:
        """``body`` with these names."""
        text = body.decode().replace(_NNIS_TRIALS, "/trials/")
        for place in sorted(self.places, key=len, reverse=True):
            text = text.replace(place, f"<{self.places[place]}>")
        text = _INSTANT.sub(r'"\1":0', text)
        text = _COUNTER.sub(r'"\1":0', text)
        text = _MESSAGE.sub("", text)  # NNI has none here; ours says why a trial has failed
        text = text.replace(f'"id":"{self.experiment}"', '"id":"<experiment>"')
        text = text.replace(f"/{self.experiment}", "/<experiment>")
        return _TRIAL.sub(lambda found: found[1] + self.trials.get(found[2], found[2]), text)


def in_order(metrics: Answer) -> bool:
    """Whether the intermediate metrics are in the order of each trial's reports."""
    reached: dict[str, int] = {}
    for metric in map(json.loads, metrics.items()):
        if metric["type"] == "PERIODICAL":
            if metric["sequence"] < reached.get(metric["trialJobId"], 0):
                return False
            reached[metric["trialJobId"]] = metric["sequence"]
    return True


def reordered(wanted: Answer, given: Answer) -> bool:
    """Whether both have the same metrics, and ``given`` has them in the order of each trial's reports."""
    if replace(wanted, text=given.text).difference(given):
        return False  # by more than their texts
    return sorted(wanted.items()) == sorted(given.items()) and in_order(given)


def recorded(answers: Mapping[str, Answer]) -> str:
    """A text that keeps answers, by path: a line each, and one for each text and each set of headers."""
    texts = list(dict.fromkeys(answer.text for answer in answers.values()))
    headers: list[dict[str, str]] = []
    lines = {}
    for path, answer in answers.items():
        if answer.compared not in headers:
            headers.append(answer.compared)
        lines[path] = [answer.status, headers.index(answer.compared), texts.index(answer.text)]

    def listed(found: Sequence[Any]) -> str:
        return ",\n".join(json.dumps(item, ensure_ascii=False) for item in found)

    told = ",\n".join(f"{json.dumps(path)}: {json.dumps(line)}" for path, line in lines.items())
    parts = {
        "headers": f"[\n{listed(headers)}\n]",
        "texts": f"[\n{listed(texts)}\n]",
        "answers": f"{{\n{told}\n}}",
    }
    return "{" + ",\n".join(f'"{name}": {part}' for name, part in parts.items()) + "}\n"


def read_recorded(text: str) -> dict[str, Answer]:
    """What ``recorded`` has kept."""
    kept = json.loads(text)
    return {
        path: Answer(status=status, headers=kept["headers"][headers], text=kept["texts"][number])
        for path, (status, headers, number) in kept["answers"].items()
    }
