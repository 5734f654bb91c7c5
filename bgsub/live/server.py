"""A live run in a browser: the page, the pictures, the numbers, and the commands back."""

from __future__ import annotations

import errno
import http.server
import logging
import socket
import socketserver
import threading
from collections.abc import Mapping
from functools import partial
from typing import Any

from bgsub.errors import ParameterError, SinkError
from bgsub.jobs.controls import Controls
from bgsub.live.access import Access
from bgsub.live.broadcast import Broadcast
from bgsub.live.connections import Connections
from bgsub.live.handler import PATIENCE, LiveHandler, PageState
from bgsub.live.region_store import RegionStore
from bgsub.live.viewer import Backdrop
from bgsub.separation import Separation
from bgsub.video.sinks.base import Sink
from bgsub.video.sources.base import Frame

logger = logging.getLogger("bgsub")


class LiveServer:
    """Serves the page of one or more live runs until it is closed.

    Parameters
    ----------
    cameras : Controls, or mapping of str to Controls
        State of the run, or of each by the name of its camera.
    host : str
        Name or address to bind to; by default this machine only.
    port : int
        TCP port; 0 for a free one.
    token : str, optional
        Secret that every request must bring along; on another host than this machine there is a random one when none
        is given.
    backdrop : callable, optional
        What the view cutout shows behind the foreground; see `bgsub.live.viewer.Viewer`.
    regions : RegionStore, optional
        Where regions that are drawn on the page go; by default they cannot be stored.

    Attributes
    ----------
    address : str
        Where the page is, the token included.
    broadcasts : list of Broadcast
        The pictures of each camera.

    Raises
    ------
    SinkError
        If the port is taken or the host is none of this machine.
    ParameterError
        For a bad port or token.
    """

    def __init__(
        self,
        cameras: Controls | Mapping[str, Controls],
        host: str = "127.0.0.1",
        port: int = 8765,
        token: str | None = None,
        backdrop: Backdrop | None = None,
        regions: RegionStore | None = None,
    ) -> None:
        if not 0 <= port <= 65535:
            raise ParameterError(f"port must be an integer in [0, 65535], got {port}")
        named = {"camera": cameras} if isinstance(cameras, Controls) else cameras
        self.broadcasts = [Broadcast(controls, name, backdrop) for name, controls in named.items()]
        self.page = PageState(Access(host, token), self.broadcasts, regions or RegionStore())
        self._server = _Server(host, port, self.page)
        self.address = self._server.address
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), name="bgsub-server")
        self._thread.start()

    def sink(self, camera: int = 0) -> ServerSink:
        """Return what hands the frames of a camera on, for its pipeline."""
        return ServerSink(self.broadcasts[camera])

    def close(self) -> None:
        """End the streams and all threads; may be called more than once."""
        for broadcast in self.broadcasts:
            broadcast.close()
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.end()

    def __enter__(self) -> LiveServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ServerSink(Sink):
    """Hands the frames of a run to a `LiveServer`, which outlives it; never waits for a browser."""

    def __init__(self, broadcast: Broadcast) -> None:
        self._broadcast = broadcast

    def write(self, frame: Frame, separation: Separation) -> None:
        self._broadcast.put(separation)

    def preview(self, frame: Frame) -> None:
        self._broadcast.put(frame)

    def close(self) -> None:
        """Do nothing: the last picture stays until the server is closed."""


class _Server(http.server.ThreadingHTTPServer):
    """The sockets; every connection has a thread, and all have ended after `end`."""

    daemon_threads = False
    request_queue_size = 128  # a short queue lets whoever connects often keep others waiting

    def __init__(self, host: str, port: int, page: PageState) -> None:
        self._access = page.access
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.connections = Connections(PATIENCE)
        try:
            super().__init__((host, port), partial(LiveHandler, page))
        except OSError as error:
            reason = "the port is in use" if error.errno == errno.EADDRINUSE else error.strerror or error
            raise SinkError(f"the page cannot be served at {host}:{port}: {reason}") from None

    def server_bind(self) -> None:
        """Bind without asking for the full name of the host, which takes long where no one knows it."""
        socketserver.TCPServer.server_bind(self)
        self._access.cookie += f"-{self.server_address[1]}"

    @property
    def address(self) -> str:
        """Where the page is."""
        host, port = self.server_address[:2]
        # Who binds to all addresses reaches the page at any of them.
        shown = {"0.0.0.0": socket.gethostname(), "::": socket.gethostname()}.get(str(host), str(host))
        shown = f"[{shown}]" if ":" in shown else shown
        return f"http://{shown}:{port}/" + (f"?token={self._access.token}" if self._access.token else "")

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in a thread of its own."""
        self.connections.add(request, client_address[0])
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Forget a connection that has been served."""
        self.connections.remove(request)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Look, between connections and some times a second, after those that take too long."""
        self.connections.end_late()

    def end(self) -> None:
        """Close all connections and wait for their threads."""
        self.connections.end()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Tell in one line that a connection broke; browsers come and go."""
        logger.debug("the connection from %s broke", client_address[0], exc_info=True)
