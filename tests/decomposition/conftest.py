"""The fakes of the video tests serve here as well."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "video"))
