"""A run in a window, for the test that looks at it: prints a line of JSON whenever the state of the run changes.

It quits as its window says; its camera falls silent while there is a file ``silent`` in the folder that is given.
"""

import json
import sys
from pathlib import Path

from live_fakes import Tunable, WalkingSquare

from bgsub.jobs.controls import Controls
from bgsub.jobs.pipeline import Pipeline
from bgsub.live.region_drawing import RegionDrawing
from bgsub.live.region_store import RegionStore
from bgsub.live.viewer import Viewer
from bgsub.live.window import KeyCommands, WindowSink
from bgsub.video.sinks.base import Sink


class Report(Sink):
    """Prints the state of the run when it has changed."""

    def __init__(self, controls: Controls, camera: WalkingSquare, keys: KeyCommands, silent: Path) -> None:
        self._controls, self._camera, self._keys, self._silent, self._told = controls, camera, keys, silent, None

    def write(self, frame, separation) -> None:
        if self._silent.exists():
            self._camera.silent.set()
        self.idle()

    def idle(self) -> None:
        controls = self._controls
        state = {name: getattr(controls, name) for name in ("view", "paused", "frozen", "show_help", "notice")}
        state["editing"] = self._keys.drawing.active
        state["regions"] = [region.name for region in self._keys.drawing._regions]
        state.update({name: controls.parameters[name] for name in ("threshold", "min_area")})
        if state != self._told:
            self._told = state
            print(json.dumps(state), flush=True)

    def close(self) -> None:
        print(json.dumps({"quitting": self._controls.quitting}), flush=True)


def main() -> None:
    folder = Path(sys.argv[1])
    controls, camera = Controls(), WalkingSquare()

    def save(texts):
        (folder / "regions").write_text(json.dumps(texts))
        return "regions"

    keys = KeyCommands(controls, drawing=RegionDrawing(RegionStore({}, save)))
    viewer = Viewer(controls, camera.name)
    window = WindowSink(title="bgsub test", controls=controls, viewer=viewer, keys=keys, snapshot_folder=folder)
    sinks = [window, Report(controls, camera, keys, folder / "silent")]
    Pipeline(camera, Tunable(), sinks, controls=controls).run()


if __name__ == "__main__":
    main()
