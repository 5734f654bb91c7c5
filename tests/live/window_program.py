"""A run in a window: prints a line of JSON whenever the state of the run changes. ``python window_program.py FOLDER``.

The camera sends no more frames while the folder has a file ``silent``.
"""

import json
import sys
from pathlib import Path

from live_fakes import Tunable, WalkingSquare

from bgsub.jobs.controls import Controls
from bgsub.jobs.pipeline import Pipeline
from bgsub.live.viewer import Viewer
from bgsub.live.window import WindowSink
from bgsub.video.sinks.base import Sink


class Report(Sink):
    """Prints the state of the run when it has changed."""

    def __init__(self, folder: Path) -> None:
        self.controls, self.camera = Controls(), WalkingSquare()
        self._silent, self._last = folder / "silent", None

    def write(self, frame, separation) -> None:
        if self._silent.exists():
            self.camera.silent.set()
        self.idle()

    def idle(self) -> None:
        state = {name: getattr(self.controls, name) for name in ("view", "paused", "frozen", "show_help", "notice")}
        state.update({name: self.controls.parameters[name] for name in ("threshold", "min_area")})
        if state != self._last:
            self._last = state
            print(json.dumps(state), flush=True)

    def close(self) -> None:
        print(json.dumps({"quitting": self.controls.quitting}), flush=True)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    report = Report(folder)
    controls = report.controls
    viewer = Viewer(controls, report.camera.name)
    window = WindowSink(title="bgsub test", controls=controls, viewer=viewer, snapshot_folder=folder)
    Pipeline(report.camera, Tunable(), [window, report], controls=controls).run()
