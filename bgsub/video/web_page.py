"""Web pages in one file: their pictures are in them, and nothing comes from elsewhere."""

from __future__ import annotations

import base64
from html import escape

import numpy as np

from bgsub._opencv import cv2

THUMBNAIL = 320
"""Most pixels of the longer side of a small picture."""

_HEAD = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
"""
_STYLE = """:root{color-scheme:light dark;--back:#fff;--text:#1b1d20;--faint:#585d64;--line:#d5d8dc;--panel:#f3f4f6}
@media(prefers-color-scheme:dark){:root{--back:#15171a;--text:#e6e8ea;--faint:#a2a8b0;--line:#3a3f46;--panel:#202328}}
body{font:16px/1.45 system-ui,sans-serif;margin:0 auto;padding:1em;max-width:82em;
background:var(--back);color:var(--text);overflow-wrap:anywhere}
img{display:block;max-width:100%;height:auto}figure{margin:0 0 1.2em}figcaption{margin-bottom:.2em}
"""


def page(title: str, body: str, style: str = "") -> bytes:
    """Return a page of that title, which is escaped here; `body` is HTML and `style` CSS for any screen."""
    name = escape(title)
    head = f"{_HEAD}<title>{name}</title><style>{_STYLE}{style}</style></head><body>\n<h1>{name}</h1>\n"
    return f"{head}{body}</body></html>\n".encode("utf-8", "replace")


def picture(jpeg: bytes, text: str) -> str:
    """Return a JPEG file as an element of a page; `text` says what is to be seen, and is escaped here."""
    data = base64.b64encode(jpeg).decode("ascii")
    return f'<img alt="{escape(text)}" src="data:image/jpeg;base64,{data}">'


def shrunk(image: np.ndarray, longest: int) -> np.ndarray:
    """Return an image, (h, w) or (h, w, 3) uint8, with no side longer than that; the same one where it fits."""
    height, width = image.shape[:2]
    scale = longest / max(height, width)
    if scale >= 1:
        return image
    size = max(1, round(width * scale)), max(1, round(height * scale))
    return cv2.resize(image, size, interpolation=cv2.INTER_AREA)


def jpeg_of(image: np.ndarray, quality: int = 95) -> bytes:
    """Return an image, (h, w) or (h, w, 3) uint8, as a JPEG file."""
    return cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, quality])[1].tobytes()
