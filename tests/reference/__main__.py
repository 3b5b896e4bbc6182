"""Writes the pages of ``docs/reference``: ``python -m tests.reference``."""

from tests.reference.pages import FOLDER, PAGES

if __name__ == "__main__":
    for name, render in PAGES.items():
        (FOLDER / name).write_text(render(), encoding="utf-8")
