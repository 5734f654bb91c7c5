"""Web pages in one file, made of Jinja2 templates; their pictures are inside."""

import base64
import os
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from bgsub._opencv import cv2

THUMBNAIL = 320  # largest side of a small picture in pixels


def render(template: str, **values: Any) -> bytes:
    """Return a page made of a template in ``bgsub/templates``, in UTF-8; values are escaped."""
    return _templates().get_template(template).render(**values).encode("utf-8", "replace")


@cache
def _templates() -> Any:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: PLC0415 - only pages need it

    folder = FileSystemLoader(Path(__file__).parents[1] / "templates")
    environment = Environment(
        loader=folder, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["data_uri"] = lambda jpeg: f"data:image/jpeg;base64,{base64.b64encode(jpeg).decode('ascii')}"
    return environment


def link(folder: Path, path: str | Path | None) -> str:
    """Return the address of a file in a page in `folder`; empty without a file."""
    return "" if path is None else quote(os.path.relpath(path, folder).replace(os.sep, "/"), errors="surrogateescape")


def shrunk(image: np.ndarray, longest: float, how: int = cv2.INTER_AREA) -> np.ndarray:
    """Return an image, (h, w) or (h, w, 3), reduced to `longest` pixels on its larger side if that is larger."""
    height, width = image.shape[:2]
    scale = longest / max(height, width)
    if scale >= 1:
        return image
    size = max(1, round(width * scale)), max(1, round(height * scale))
    return cv2.resize(image, size, interpolation=how)


def jpeg_of(image: np.ndarray, quality: int = 95) -> bytes:
    """Return an image, (h, w) or (h, w, 3) uint8, as a JPEG file."""
    return cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, quality])[1].tobytes()
