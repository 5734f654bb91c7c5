"""A run in a window, for the test that looks at it: prints a line of JSON whenever the state of the run changes.

It quits as its window says; its camera falls silent while there is a file ``silent`` in the folder that is given.
"""

import json
import sys
from pathlib import Path

from walking_square import Tunable, WalkingSquare

from bgsub.jobs.controls import Controls
from bgsub.jobs.pipeline import Pipeline
from bgsub.live.viewer import Viewer
from bgsub.live.window import WindowSink
from bgsub.video.sinks.base import Sink


class Report(Sink):
    """Prints the state of the run when it has changed."""

    def __init__(self, controls: Controls, camera: WalkingSquare, silent: Path) -> None:
        self._controls, self._camera, self._silent, self._told = controls, camera, silent, None

    def write(self, frame, separation) -> None:
        if self._silent.exists():
            self._camera.silent.set()
        self.idle()

    def idle(self) -> None:
        controls = self._controls
        state = {name: getattr(controls, name) for name in ("view", "paused", "frozen", "show_help", "notice")}
        state.update({name: controls.parameters[name] for name in ("threshold", "min_area")})
        if state != self._told:
            self._told = state
            print(json.dumps(state), flush=True)

    def close(self) -> None:
        print(json.dumps({"quitting": self._controls.quitting}), flush=True)


def main() -> None:
    folder = Path(sys.argv[1])
    controls, camera = Controls(), WalkingSquare()
    window = WindowSink(
        title="bgsub test", controls=controls, viewer=Viewer(controls, camera.name), snapshot_folder=folder
    )
    sinks = [window, Report(controls, camera, folder / "silent")]
    Pipeline(camera, Tunable(), sinks, controls=controls).run()


if __name__ == "__main__":
    main()
