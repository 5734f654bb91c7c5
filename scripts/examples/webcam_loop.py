"""The classic loop: a camera, a mask, a window.

python scripts/examples/webcam_loop.py            # the first webcam; Esc or q ends it
python scripts/examples/webcam_loop.py ADDRESS    # a network camera, a file or a folder of images
python scripts/examples/webcam_loop.py FILE --no-window --frames 50
"""

from __future__ import annotations

import argparse

import cv2

import bgsub


def main(arguments: list[str] | None = None) -> None:
    """Show the mask beside the picture, or print the share of the foreground."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", nargs="?", default="0")
    parser.add_argument("--no-window", action="store_true")
    parser.add_argument("--frames", type=int, help="stop after so many")
    options = parser.parse_args(arguments)

    subtractor = bgsub.BackgroundSubtractor()
    with bgsub.open_source(options.source) as source:
        for count, frame in enumerate(source, 1):
            mask = subtractor.apply(frame.image)
            if options.no_window:
                print(f"{frame.name} {(mask == 255).mean():.4f}")
            else:
                cv2.imshow("bgsub", cv2.hconcat([frame.image, cv2.cvtColor(mask, cv2.COLOR_GRAY2BGR)]))
                if cv2.waitKey(1) in (27, ord("q")):
                    break
            if count == options.frames:
                break


if __name__ == "__main__":
    main()
