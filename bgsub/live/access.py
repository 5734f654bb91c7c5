"""Who may use the page of a live run: this machine, or whoever knows the token."""

from __future__ import annotations

import hmac
import ipaddress
import secrets
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie
from urllib.parse import urlsplit

from bgsub.errors import ParameterError

_LEAST_TOKEN = 8  # characters


def is_loopback(host: str) -> bool:
    """Return whether a name or address of a host means this machine only."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Access:
    """Decides about requests to a server that binds to `host`, by their header fields.

    Every request must bring along the token, if there is one: ParameterError where it is too short, or an address
    cannot hold it. On other hosts than this machine there always is one: a random one when none is given.
    """

    def __init__(self, host: str, token: str | None = None) -> None:
        if token is not None and (len(token) < _LEAST_TOKEN or not token.isascii() or not _is_plain(token)):
            raise ParameterError(f"token must be at least {_LEAST_TOKEN} letters, digits, '-' or '_'")
        self._host = host
        self.token = secrets.token_urlsafe(16) if token is None and not is_loopback(host) else token
        self.cookie = "bgsub-token"  # the server adds its port: a browser sends cookies to all ports of a host

    def has_token(self, headers: Mapping[str, str], query: Mapping[str, str]) -> bool:
        """Return whether a request brings the token: ``?token=``, ``Authorization: Bearer``, or the cookie."""
        if self.token is None:
            return True
        given = [query.get("token", ""), headers.get("Authorization", "").removeprefix("Bearer ")]
        try:
            cookie = SimpleCookie(headers.get("Cookie", "")).get(self.cookie)
        except CookieError:
            cookie = None
        if cookie is not None:
            given.append(cookie.value)
        return any(hmac.compare_digest(text.encode(), self.token.encode()) for text in given)

    def knows_host(self, headers: Mapping[str, str]) -> bool:
        """Return whether the field Host is plausible.

        A page elsewhere whose name suddenly means this machine (DNS rebinding) sends its own name here.
        """
        if self.token is not None:
            return True
        name = urlsplit(f"//{headers.get('Host', '')}").hostname or ""
        return is_loopback(name) or name == self._host.lower()

    @staticmethod
    def is_embedded(headers: Mapping[str, str]) -> bool:
        """Return whether a page from elsewhere uses what is asked for; a link there, which shows it alone, may.

        Browsers tell; where they do not, what is answered must not be used by others either (its header fields).
        """
        elsewhere = headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none")
        return elsewhere and headers.get("Sec-Fetch-Dest", "") != "document"

    @staticmethod
    def is_same_origin(headers: Mapping[str, str]) -> bool:
        """Return whether a command comes from the page itself or from no page at all, and is JSON.

        A form elsewhere cannot send JSON, and a script there cannot without being asked about first.
        """
        if headers.get("Content-Type", "").split(";")[0].strip().lower() != "application/json":
            return False
        if headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
            return False
        origin = headers.get("Origin")
        return origin is None or origin.partition("://")[2] == headers.get("Host", "")


def _is_plain(text: str) -> bool:
    return all(character.isalnum() or character in "-_" for character in text)
