"""Code blocks of the documentation pages, in order.

`test_blocks.py` runs a block unless a comment before it gives a reason not to::

    <!-- not run: needs a camera -->

A ``text`` block after a block is its expected output; ``...`` matches any text.
"""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(path.name for path in DOCS.glob("*.md"))
# Blocks must start at the beginning of a line; a test detects others.
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
    text = (DOCS / page).read_text(encoding="utf-8")
    return [Block(*found.group("language", "code", "reason", "printed")) for found in _BLOCK.finditer(text)]
