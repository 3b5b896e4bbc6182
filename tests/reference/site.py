"""Hook of mkdocs: links of a page to files outside ``docs`` lead to the repository instead."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

__all__ = ["on_page_markdown"]

_LINK = re.compile(r"\]\((\.\./[^)\s]*)\)")


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return the page; each link that leaves ``docs`` becomes the file's address in the repository."""

    def replace(link: re.Match[str]) -> str:
        folder = posixpath.join("docs", posixpath.dirname(page.file.src_uri))
        target = posixpath.normpath(posixpath.join(folder, link[1]))
        return link[0] if target.startswith("docs/") else f"]({config.repo_url}/blob/main/{target})"

    return _LINK.sub(replace, markdown)
