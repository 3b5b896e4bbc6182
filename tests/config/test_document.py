"""Files as plain values with their lines."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from nnimgr.config import document as module
from nnimgr.config.document import Document, read_document
from nnimgr.config.problems import ConfigError

FILE = Path("exp.yml")


def refusal(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        Document(FILE, text)
    return str(caught.value)


def test_places_are_those_of_keys_and_items() -> None:
    document = Document(FILE, "a:\n  b: [1,\n      2]\nc: x\n")
    assert document.value == {"a": {"b": [1, 2]}, "c": "x"}
    assert str(document.problem(("a", "b", 1), "bad")) == "exp.yml:3:7: a.b[1]: bad"
    assert str(document.problem(("a", "b", 7, "deeper"), "bad")) == "exp.yml:2:3: a.b[7].deeper: bad"
    assert str(document.problem(("missing",), "bad")) == "exp.yml: missing: bad"
    assert str(document.problem((), "bad")) == "exp.yml:1:1: bad"


def test_duplicate_keys_are_refused_in_yaml_and_json() -> None:
    assert refusal("a: 1\nb: 2\na: 3\n") == "exp.yml:3:1: the key 'a' is given twice (first in line 1)"
    assert refusal('{"a": 1,\n\t"a": 2}') == "exp.yml:2:2: the key 'a' is given twice (first in line 1)"


def test_a_tab_is_explained() -> None:
    assert refusal("a:\n\tb: 1\n") == "exp.yml:2:1: YAML does not allow a tab here; use spaces"


def test_json_is_read_as_json() -> None:
    document = Document(FILE, '{\n\t"a": 1e-5,\n\t"b": [true, null]\n}')
    assert document.value == {"a": 1e-5, "b": [True, None]}
    assert document.problem(("b", 0), "bad").line == 3


def test_yaml_is_read_as_safe_load_reads_it() -> None:
    document = Document(FILE, "a: 1e-5\nb: yes\nc: 0x10\nd: ~\n1: x\n")
    assert document.value == {"a": "1e-5", "b": True, "c": 16, "d": None, 1: "x"}


def test_anchors_and_merges_work_and_may_be_used_twice() -> None:
    document = Document(FILE, "x: &x {a: 1, b: 2}\ny: &y\n  <<: *x\n  b: 3\nz: *y\n")
    assert document.value["y"] == document.value["z"] == {"a": 1, "b": 3}


@pytest.mark.parametrize("text", ["a: &a [*a]\n", "a: &a {b: *a}\n"])
def test_an_alias_inside_itself_is_refused(text: str) -> None:
    assert "nested too deep" in refusal(text)


def test_an_alias_bomb_is_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    assert "200,000 values once its aliases are followed" in refusal("\n".join(lines))


@pytest.mark.parametrize(
    "text",
    [
        "a: [1,\n",
        "a: 'x\n",
        "%",
        "a: !!python/object:os.system x\n",
        "a: 2020-13-45\n",
        "? [1]\n: 2\n",
        "\x00",
    ],
)
def test_what_is_not_yaml_is_refused_in_one_sentence(text: str) -> None:
    assert "\n" not in refusal(text)


def test_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        read_document(tmp_path / "none.yml")
    with pytest.raises(ConfigError, match="this is a folder, not a file"):
        read_document(tmp_path)
    latin = tmp_path / "latin.yml"
    latin.write_bytes(b"a: 1\nb: \xe9\n")
    with pytest.raises(ConfigError, match=r"latin\.yml:2: this is not UTF-8 text"):
        read_document(latin)


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    file = tmp_path / "bom.json"
    file.write_bytes(b'\xef\xbb\xbf{"a": 1}')
    assert read_document(file).value == {"a": 1}


def test_a_file_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_BYTES", 10)
    file = tmp_path / "large.yml"
    file.write_text("a: 1\n#2345")
    assert read_document(file).value == {"a": 1}
    file.write_text("a: 1\n#23456")
    with pytest.raises(ConfigError, match="cannot be read: it has more than 10 bytes"):
        read_document(file)


def test_a_file_that_keeps_its_reader_waiting_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some files in /proc block until the next message, unless they are opened in non-blocking mode."""
    looked_at: list[bool] = []

    def read(descriptor: int, size: int) -> bytes:
        looked_at.append(os.get_blocking(descriptor))
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(os, "read", read)
    file = tmp_path / "waits.yml"
    file.touch()
    with pytest.raises(ConfigError, match="cannot be read: Resource temporarily unavailable"):
        read_document(file)
    assert looked_at == [False]
