"""Detection on the residual: boxes of what moves, with a confidence; no detector, no training.

How far each pixel lies from the background subspace, in units of its own noise, says how sure it is to be foreground;
the mean over a connected object serves as confidence. With the package supervision installed,
`find_objects(...).to_supervision()` gives its Detections.

    python scripts/examples/detect_on_residual.py datasets/sample/input --output boxes.png
"""

from __future__ import annotations

import argparse

import cv2

import bgsub


def main(arguments: list[str] | None = None) -> None:
    """Print a line for each object in each frame, and draw those of the frame that has the most."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source")
    parser.add_argument("--min-area", type=int, default=20, help="pixels")
    parser.add_argument("--output", help="a picture with boxes")
    options = parser.parse_args(arguments)

    busiest, most = None, 0
    for frame, separation in bgsub.separate(options.source):
        objects = bgsub.find_objects(separation, options.min_area)
        for box, area, confidence in zip(objects.xyxy, objects.area, objects.confidence, strict=True):
            left, top, right, bottom = box.astype(int)
            print(f"{frame.name} x {left}..{right} y {top}..{bottom} area {area} confidence {confidence:.2f}")
        if len(objects) > most:
            most, busiest = len(objects), (separation.frame.copy(), objects)
    if options.output and busiest is not None:
        image, objects = busiest
        for left, top, right, bottom in objects.xyxy.astype(int).tolist():
            cv2.rectangle(image, (left, top), (right - 1, bottom - 1), (80, 80, 255), 1)
        cv2.imwrite(options.output, image)


if __name__ == "__main__":
    main()
