"""Self-contained HTML pages.

Each page is one file, loads no other file, and has a content security policy that allows only its own code.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from importlib import resources

from nnimgr.api.asgi import Send, answer

__all__ = ["Page"]

_INLINE = re.compile(r"<(script|style)>(.*?)</\1>", re.DOTALL)


class Page:
    """HTML page from the file ``name``.html of this package. Its content security policy lists its scripts by
    hash.
    """

    def __init__(self, name: str) -> None:
        html = resources.files(__package__).joinpath(f"{name}.html").read_text(encoding="utf-8")
        sums: dict[str, list[str]] = {"script": [], "style": []}
        for kind, text in _INLINE.findall(html):
            digest = hashlib.sha256(text.encode()).digest()
            sums[kind].append(f"'sha256-{base64.b64encode(digest).decode()}'")
        self.body = html.encode()
        self.policy = (
            f"default-src 'none'; script-src {' '.join(sums['script'])}; "
            f"style-src {' '.join(sums['style'])}; connect-src 'self'; img-src data:; "
            "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
        )

    async def send(self, send: Send, status: int, *, headers: Sequence[tuple[bytes, bytes]] = ()) -> None:
        fields = [(b"content-security-policy", self.policy.encode()), *headers]
        content_type = b"text/html; charset=utf-8"
        await answer(send, status, body=self.body, content_type=content_type, headers=fields)
