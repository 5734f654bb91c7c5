"""The code that the README shows, and what it needs to run."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def block(name):
    """Return the lines of the code block between the markers `name` and `end`."""
    found = re.search(rf"<!-- {name} -->\n```\w+\n(.*?)```\n<!-- end -->", README, re.DOTALL)
    assert found, f"README has no block {name}"
    return found[1].strip()
