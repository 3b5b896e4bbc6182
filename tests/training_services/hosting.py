"""Real server for keepers of this machine."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

from nnimgr.server.doors import Doors
from training_services.keepers.http_door import KeeperDoor
from training_services.keepers.hub import KeeperHub


@contextlib.asynccontextmanager
async def serve(hub: KeeperHub) -> AsyncIterator[Doors]:
    """Serve this hub's keepers; yields the doors at which they call."""
    with tempfile.TemporaryDirectory(prefix="nnimgr-") as folder:
        doors = Doors(KeeperDoor(hub), folder=Path(folder), name="test")
        try:
            yield doors
        finally:
            hub.close()
            await doors.close()
