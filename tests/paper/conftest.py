"""Import path of the scripts of the paper."""

import sys
from importlib.util import find_spec
from pathlib import Path

collect_ignore_glob = [] if find_spec("matplotlib") else ["test_*.py"]  # the scripts draw with Matplotlib
sys.path.insert(0, str(Path(__file__).parents[2] / "scripts" / "paper"))
