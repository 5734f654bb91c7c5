"""The scripts of the paper import their siblings by name."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts" / "paper"))
