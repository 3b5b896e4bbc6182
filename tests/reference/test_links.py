"""The links between documents: each leads to a file that exists, and to a heading of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "deploy" / "README.md"])
_LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")
_CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)


def anchors(document: Path) -> set[str]:
    """Return the anchors that GitHub makes of the headings of a document."""
    headings = re.findall(r"^#+ (.+)$", document.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_somewhere(document: Path) -> None:
    for target, anchor in _LINK.findall(_CODE.sub("", document.read_text(encoding="utf-8"))):
        if target.startswith(("http://", "https://")):
            continue
        file = document.parent / target if target else document
        assert file.exists(), f"{document.relative_to(ROOT)} links to {target}, which does not exist"
        if anchor:
            found = anchor in anchors(file)
            assert found, f"{document.relative_to(ROOT)} links to #{anchor}, which {file.name} does not have"
