"""Write the sample sequence of datasets/sample: a synthetic lobby in the layout of changedetection.net.

Usage: python scripts/make_sample.py [FOLDER]
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

from bgsub._opencv import cv2
from bgsub.synthetic import Scene, scene

SAMPLE = Path(__file__).resolve().parent.parent / "datasets" / "sample"
FIRST_SCORED = 31
JPEG_QUALITY = 92


def sample_scene() -> Scene:
    """Return the scene of the sample, with people and switching lamps."""
    return scene("lobby", length=120, seed=6, noise=1.0, walkers=4, empty_start=0)


def write(folder: Path) -> None:
    """Write frames, masks and temporalROI.txt."""
    for part in ("input", "groundtruth"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    sequence = sample_scene()
    for number, (frame, mask) in enumerate(sequence, start=1):
        # no chroma subsampling: 4:2:0 visibly changes small coloured things
        full = cv2.IMWRITE_JPEG_SAMPLING_FACTOR_444
        quality = [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY, cv2.IMWRITE_JPEG_SAMPLING_FACTOR, full]
        cv2.imwrite(str(folder / "input" / f"in{number:06d}.jpg"), frame, quality)
        compression = [cv2.IMWRITE_PNG_COMPRESSION, 9]
        cv2.imwrite(str(folder / "groundtruth" / f"gt{number:06d}.png"), mask, compression)
    (folder / "temporalROI.txt").write_text(f"{FIRST_SCORED} {len(sequence)}\n", encoding="ascii")


def digest(folder: Path) -> str:
    """Return the SHA-256 of all files of a folder: for each in the order of the paths, path and SHA-256."""
    total = hashlib.sha256()
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        total.update(f"{path.relative_to(folder).as_posix()} {content}\n".encode())
    return total.hexdigest()


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else SAMPLE
    write(target)
    print(f"{target}: sha256 {digest(target)}")
