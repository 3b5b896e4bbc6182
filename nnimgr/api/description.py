"""Program that prints the OpenAPI document, from which the dashboard's types are generated.

python -m nnimgr.api.description > webui/openapi.json
"""

from __future__ import annotations

import json
from typing import Any

from nnimgr.api.app import describe

__all__ = ["text"]


def text() -> str:
    """Return the OpenAPI document as a JSON text.

    The version number is omitted, so that the document does not change with every release.
    """
    document: dict[str, Any] = describe()
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    import sys

    sys.stdout.write(text())
