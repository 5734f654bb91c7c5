"""A run in a window: prints a line of JSON whenever the state of the run changes. ``python window_program.py FOLDER``.

The camera sends no more frames while the folder has a file ``silent``.
"""

import json
import sys
from pathlib import Path

from live_fakes import Saved, Tunable, WalkingSquare

from bgsub.jobs.controls import Controls
from bgsub.jobs.pipeline import Pipeline
from bgsub.live.region_drawing import RegionDrawing
from bgsub.live.region_store import RegionStore
from bgsub.live.viewer import Viewer
from bgsub.live.window import KeyCommands, WindowSink
from bgsub.video.sinks.base import Sink


class Report(Sink):
    """Prints the state of the run when it has changed."""

    def __init__(self, folder: Path) -> None:
        self.controls, self.camera, self.saved = Controls(), WalkingSquare(), Saved()
        self.drawing = RegionDrawing(RegionStore({}, self.saved.save))
        self._silent, self._last = folder / "silent", None

    def write(self, frame, separation) -> None:
        if self._silent.exists():
            self.camera.silent.set()
        self.idle()

    def idle(self) -> None:
        state = {name: getattr(self.controls, name) for name in ("view", "paused", "frozen", "show_help", "notice")}
        state.update({name: self.controls.parameters[name] for name in ("threshold", "min_area")})
        regions = [region.name for region in self.drawing._regions]
        state.update(editing=self.drawing.active, regions=regions, saved=self.saved)
        if state != self._last:
            self._last = state
            print(json.dumps(state), flush=True)

    def close(self) -> None:
        print(json.dumps({"quitting": self.controls.quitting}), flush=True)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    report = Report(folder)
    controls = report.controls
    keys, viewer = KeyCommands(controls, drawing=report.drawing), Viewer(controls, report.camera.name)
    window = WindowSink(title="bgsub test", controls=controls, viewer=viewer, keys=keys, snapshot_folder=folder)
    Pipeline(report.camera, Tunable(), [window, report], controls=controls).run()
