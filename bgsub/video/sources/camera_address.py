"""Camera indices and addresses; passwords are removed for messages."""

import re

from bgsub.errors import ParameterError, SourceError
from bgsub.video.output_names import safe_name

SCHEMES = ("rtsp", "rtsps", "rtmp", "rtp", "http", "https", "udp", "tcp", "srt")

_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]+)://", re.IGNORECASE)
# "user:pass/word@" with an unescaped slash: no port follows the colon.
_USER_WITH_SLASH = re.compile(r"\A[^/@:\[]*:(?!\d+/).*@")
_SECRET = re.compile(r"((?:pass(?:word|wd|phrase)?|pwd|token|secret|auth|key)=)[^&;]*", re.IGNORECASE)

_NOT_VERIFIED = " (certificate not verified)"


def is_camera(spec: str) -> bool:
    """Return whether a text is a camera: its index in digits, or an address with a scheme."""
    return (spec.isascii() and spec.isdigit()) or bool(_ADDRESS.match(spec))


def without_password(address: str) -> str:
    """Return an address without user name, password and secret parameters (``pwd=...``)."""
    scheme, mark, rest = address.partition("://")
    authority, slash, path = rest.partition("/")
    known = "@" in authority
    rest = authority.rpartition("@")[2] + slash + path if known else _USER_WITH_SLASH.sub("", rest, count=1)
    return scheme + mark + _SECRET.sub(r"\1***", rest)


def insecure_mark(address: str, insecure: bool) -> str:
    """Return the end of the name of a camera whose certificate is not verified; empty for others."""
    return _NOT_VERIFIED if insecure and address.lower().startswith(("https:", "rtsps:")) else ""


def file_name(camera: str) -> str:
    """Return the name of a camera for file names."""
    name = camera.partition("://")[2] or camera
    return safe_name(name.removesuffix(_NOT_VERIFIED), "camera")


def parse_camera(camera: int | str) -> int | str:
    """Return the index or address of a camera; ParameterError for a negative index, SourceError for another scheme."""
    if isinstance(camera, str) and not (camera.isascii() and camera.isdigit()):
        address = _ADDRESS.match(camera)
        if address is None or address[1].lower() not in SCHEMES:
            allowed = ", ".join(f"{scheme}://" for scheme in SCHEMES)
            given = without_password(camera)
            raise SourceError(f"a camera is an index or an address with one of {allowed}; got '{given}'")
        return camera
    index = int(camera)
    if index < 0:
        raise ParameterError(f"the index of a camera must be 0 or more, got {index}")
    return index
