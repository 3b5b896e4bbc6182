"""What NNI 3.0 has answered about an experiment, and what we answer, with NNI's own SDKs in the trials.

NNI is not needed: ``nni_answers.json`` holds what ``python -m benchmarks.nni_answers`` has recorded.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.answers import read_recorded, start
from tests.e2e.product import Product
from tests.e2e.scene import eventually
from tests.e2e.sdks import VERSIONS, NoSdk, sdk_python
from tests.server.harness import nothing_left

TRIALS = 10
LIMIT_S = 240.0
RECORDED = Path(__file__).with_name("nni_answers.json")


@pytest.mark.parametrize("version", VERSIONS)
def test_every_answer_is_nnis_byte_by_byte(tmp_path: Path, version: str) -> None:
    try:
        python = sdk_python(version)
    except NoSdk as refusal:
        pytest.skip(str(refusal))
    recorded = read_recorded(RECORDED.read_text(encoding="utf-8"))
    own = Product(tmp_path)
    with nothing_left(tmp_path):
        try:
            side = start(own, python, TRIALS)
            eventually(lambda: side.status() == "DONE", "the end", LIMIT_S)
            given = {path: answer for _, path, answer in side.answers()}
        finally:
            own.stop_all()
    assert list(given) == list(recorded)
    differences = {
        path: difference for path in given if (difference := given[path].difference(recorded[path]))
    }
    assert differences == {}
