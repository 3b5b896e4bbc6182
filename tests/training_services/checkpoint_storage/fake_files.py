"""Storage in memory, which fails when a test says so."""

from __future__ import annotations

import io
from pathlib import Path

from training_services.checkpoint_storage.files import StorageError, StoredFile


class FakeFiles:
    """Fake of ``StorageFiles``. ``broken``: a sentence with which each call fails, or None.

    ``breaks_at``: a part of a name; a file with such a name cannot be put. ``put_names``: names of all files
    that were put, in their order.
    """

    def __init__(self) -> None:
        self.content: dict[str, bytes] = {}
        self.broken: str | None = None
        self.breaks_at: str | None = None
        self.put_names: list[str] = []

    def _check(self) -> None:
        if self.broken is not None:
            raise StorageError(self.broken)

    def sizes(self) -> dict[str, int]:
        self._check()
        return {name: len(content) for name, content in self.content.items()}

    def put(self, name: str, source: Path) -> None:
        content = source.read_bytes()
        self._check()
        if self.breaks_at is not None and self.breaks_at in name:
            raise StorageError(f"{self.breaks_at} was refused")
        self.put_names.append(name)
        self.content[name] = content

    def open(self, name: str) -> StoredFile:
        self._check()
        if name not in self.content:
            raise FileNotFoundError(name)
        return io.BytesIO(self.content[name])

    def remove_file(self, name: str) -> None:
        self._check()
        self.content.pop(name, None)

    def remove_folder(self, name: str) -> None:
        self._check()
        for each in [each for each in self.content if each.startswith(f"{name}/")]:
            del self.content[each]
