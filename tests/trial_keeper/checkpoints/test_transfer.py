"""Tests of the two ends of a checkpoint's transfer: what is sent, and what is received."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from trial_keeper.checkpoints import contents
from trial_keeper.checkpoints.contents import Entry, Outgoing
from trial_keeper.checkpoints.incoming import FILES, Damaged, Incoming, read_list

CONTENT = {"a": b"first", "b/c": b"", "b/d": b"x" * 1000, "z": b"last"}
STREAM = b"".join(CONTENT.values())


def write(folder: Path) -> Path:
    for name, content in CONTENT.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    (folder / "empty" / "er").mkdir(parents=True)
    return folder


def outgoing(folder: Path) -> Outgoing:
    return Outgoing(str(folder.parent), [folder.name])


def hashes() -> list[str]:
    return [hashlib.sha256(content).hexdigest() for content in CONTENT.values()]


# ---- sending ----------------------------------------------------------------------------------------------


def test_files_and_empty_folders_are_listed_in_order(tmp_path: Path) -> None:
    entries = outgoing(write(tmp_path / "1")).entries
    assert entries == [
        Entry("a", 5),
        Entry("b/c", 0),
        Entry("b/d", 1000),
        Entry("empty/er/", 0),
        Entry("z", 4),
    ]
    assert contents.decode_list(contents.encode_list(entries)) == entries
    assert contents.size_of(entries) == len(STREAM)


@pytest.mark.parametrize("offset", [0, 3, 5, 700, len(STREAM)])
def test_the_content_begins_at_an_offset_and_all_of_it_is_hashed(tmp_path: Path, offset: int) -> None:
    source = outgoing(write(tmp_path / "1"))
    assert b"".join(source.content(offset)) == STREAM[offset:]
    assert source.hashes == hashes()


@pytest.mark.parametrize("kind", ["link", "linked folder", "pipe"])
def test_only_files_and_folders_are_sent(tmp_path: Path, kind: str) -> None:
    folder = write(tmp_path / "1")
    if kind == "pipe":
        os.mkfifo(folder / "b" / "odd")
    else:
        (folder / "b" / "odd").symlink_to("/etc/passwd" if kind == "link" else "/etc")
    with pytest.raises(ValueError, match="b/odd is neither a file nor a folder"):
        outgoing(folder)


def test_a_checkpoint_that_is_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        outgoing(tmp_path / "1")
    (tmp_path / "2").symlink_to("/etc")
    with pytest.raises(FileNotFoundError):
        outgoing(tmp_path / "2")


def test_a_file_that_changes_is_an_error(tmp_path: Path) -> None:
    folder = write(tmp_path / "1")
    source = outgoing(folder)
    (folder / "z").write_bytes(b"longer")
    with pytest.raises(OSError, match="z changes while it is read"):
        list(source.content(0))


@pytest.mark.parametrize(
    "items",
    [
        [["../a", 1]],
        [["/a", 1]],
        [["a/./b", 1]],
        [["a", -1]],
        [["a/", 1]],
        [["b", 1], ["a", 1]],
        [["a", 1], ["a", 1]],
        [["a", "1"]],
        [["a"]],
        "a",
        {"a": 1},
    ],
)
def test_a_bad_list_is_refused(items: object) -> None:
    with pytest.raises(ValueError, match=r"list of files|not the name"):
        contents.checked(items)


def test_a_manifest_has_names_sizes_and_hashes(tmp_path: Path) -> None:
    entries = outgoing(write(tmp_path / "1")).entries
    assert contents.read_manifest(contents.manifest_of(entries, hashes())) == (entries, hashes())
    with pytest.raises(ValueError, match="manifest"):
        contents.read_manifest(b'{"files": [["a", 1]]}')


# ---- receiving --------------------------------------------------------------------------------------------


def receive(tmp_path: Path, entries: list[Entry], *pieces: bytes) -> Incoming:
    incoming = Incoming(str(tmp_path / "part"), entries)
    for piece in pieces:
        incoming.write(piece)
    return incoming


def test_what_arrives_is_what_was_sent(tmp_path: Path) -> None:
    source = outgoing(write(tmp_path / "1"))
    incoming = receive(tmp_path, source.entries, STREAM[:2], STREAM[2:900], STREAM[900:])
    manifest = incoming.finish(hashes(), durable=True)
    assert contents.read_manifest(manifest) == (source.entries, hashes())
    folder = tmp_path / "part" / FILES
    assert outgoing(folder).entries == source.entries
    assert (folder / "b" / "d").read_bytes() == CONTENT["b/d"]
    assert {path.stat().st_mode & 0o777 for path in folder.rglob("*") if path.is_file()} == {0o444}


@pytest.mark.parametrize("cut", [0, 1, 5, 6, 700, len(STREAM)])
def test_an_interrupted_transfer_continues_where_it_was(tmp_path: Path, cut: int) -> None:
    entries = outgoing(write(tmp_path / "1")).entries
    receive(tmp_path, entries, STREAM[:cut]).close()
    assert read_list(str(tmp_path / "part")) == entries
    again = Incoming(str(tmp_path / "part"), entries)
    assert again.offset == cut
    again.write(STREAM[cut:])
    again.finish(hashes(), durable=False)


def test_a_transfer_of_other_files_begins_again(tmp_path: Path) -> None:
    receive(tmp_path, [Entry("a", 5)], b"fir").close()
    again = Incoming(str(tmp_path / "part"), [Entry("a", 6)])
    assert again.offset == 0
    again.close()


def test_half_a_transfer_is_not_taken(tmp_path: Path) -> None:
    incoming = receive(tmp_path, [Entry("a", 5)], b"fir")
    with pytest.raises(Damaged, match="only 3 of 5 bytes have arrived"):
        incoming.finish(hashes()[:1], durable=False)
    incoming.close()


@pytest.mark.parametrize("wrong", [["0" * 64], [], hashes()[:1] * 2])
def test_a_wrong_hash_is_damage(tmp_path: Path, wrong: list[str]) -> None:
    incoming = receive(tmp_path, [Entry("a", 5)], b"first")
    with pytest.raises(Damaged, match="the hash of"):
        incoming.finish(wrong, durable=False)


def test_too_many_bytes_are_damage(tmp_path: Path) -> None:
    with pytest.raises(Damaged, match="more bytes have arrived"):
        receive(tmp_path, [Entry("a", 5)], b"first!")


def test_a_damaged_list_begins_again(tmp_path: Path) -> None:
    receive(tmp_path, [Entry("a", 5)], b"fir").close()
    (tmp_path / "part" / "list").write_text("?")
    assert read_list(str(tmp_path / "part")) is None
    again = Incoming(str(tmp_path / "part"), [Entry("a", 5)])
    assert again.offset == 0
    again.close()


def test_the_wrong_size_on_disk_is_found(tmp_path: Path) -> None:
    folder = write(tmp_path / "1")
    entries = outgoing(folder).entries
    contents.check_sizes(str(folder), entries)
    (folder / "z").write_bytes(b"")
    with pytest.raises(FileNotFoundError, match="z has 0 bytes in place of 4"):
        contents.check_sizes(str(folder), entries)
