"""Reader of the file ``run-*.wandb`` in which W&B keeps a run on this machine.

The file is a sequence of records in blocks of 32 KiB, as LevelDB writes its logs. The records are messages of
W&B's package, which is therefore needed.
"""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nnimgr.importing.trials import SourceError

__all__ = ["RunFile", "read_run"]

_MAGIC = b":W&B"
_BEGIN = 7  # bytes of the file's header
_BLOCK = 32 * 1024
_HEAD = struct.Struct("<IHB")  # checksum, length and type of a piece of a record
_ENDS = (1, 4)  # types of the last piece of a record


@dataclass(slots=True)
class RunFile:
    """Content of a run's file. ``exit_code``: None if it has not ended. ``began``: seconds since 1970."""

    name: str = ""
    config: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    summary: dict[str, Any] = field(default_factory=dict)
    exit_code: int | None = None
    began: float | None = None


def read_run(path: Path) -> RunFile:
    """Read a run's file, up to the end or the first record that is not complete. Raise SourceError."""
    try:
        from wandb.proto import wandb_internal_pb2 as messages
    except ImportError as error:
        raise SourceError(
            f"{path} is read with the package wandb, which is not installed: {error}",
            hint=f"Install it: {sys.executable} -m pip install wandb",
        ) from error
    found = RunFile()
    for content in _records(path):
        record = messages.Record()
        try:
            record.ParseFromString(content)
        except Exception as error:  # its class belongs to the package protobuf
            raise SourceError(f"{path} is damaged: {error}") from error
        match record.WhichOneof("record_type"):
            case "run":
                found.name = record.run.display_name or record.run.run_id
                found.began = record.run.start_time.seconds + record.run.start_time.nanos / 1e9
                _update(found.config, record.run.config.update)
            case "config":
                _update(found.config, record.config.update)
            case "history":
                line: dict[str, Any] = {}
                _update(line, record.history.item)
                found.history.append(line)
            case "summary":
                _update(found.summary, record.summary.update)
            case "exit":
                found.exit_code = record.exit.exit_code
    return found


def _update(values: dict[str, Any], items: Any) -> None:
    for item in items:
        values[item.key or ".".join(item.nested_key)] = json.loads(item.value_json)


def _records(path: Path) -> Iterator[bytes]:
    """Yield the complete records of a file."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror}") from error
    if not content.startswith(_MAGIC):
        raise SourceError(f"{path} is not a run of W&B: it does not begin with {_MAGIC.decode()}")
    at, pieces = _BEGIN, b""
    while at + _HEAD.size <= len(content):
        left = _BLOCK - at % _BLOCK
        if left < _HEAD.size:  # the rest of the block is empty
            at += left
            continue
        _, length, kind = _HEAD.unpack_from(content, at)
        at += _HEAD.size
        if at + length > len(content):
            return
        pieces += content[at : at + length]
        at += length
        if kind in _ENDS:
            yield pieces
            pieces = b""
