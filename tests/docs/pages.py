"""The pages of the documentation as their readers meet them: blocks of code, in order, with what is said of them.

A block is run by `test_blocks.py` unless a comment before it says otherwise::

    <!-- not run: needs a camera -->

A block in the language ``text`` right after a block that runs is what that block prints; ``...`` stands for anything.
"""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(path.name for path in DOCS.glob("*.md"))
# At the start of a line, so that a block within a list is none: it would not be found, which a test says.
_BLOCK = re.compile(
    r"(?:^<!-- not run: (?P<reason>[^>]+) -->\n+)?^```(?P<language>\w+)\n(?P<code>.*?)^```$"
    r"(?:\n+```text\n(?P<printed>.*?)^```$)?",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """A block of code: its language, its text, why it is not run (if so), what it prints (if that is shown)."""

    language: str
    code: str
    reason: str | None
    printed: str | None


def blocks(page: str) -> list[Block]:
    """Return the blocks of a page of `DOCS`, in order."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return [
        Block(found["language"], found["code"], found["reason"], found["printed"]) for found in _BLOCK.finditer(text)
    ]
