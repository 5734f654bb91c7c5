"""The web server of a live run."""

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
from bgsub.live.access import Access, Connections
from bgsub.live.broadcast import Broadcast
from bgsub.live.handler import PATIENCE, LiveHandler, PageState
from bgsub.live.region_store import RegionStore
from bgsub.live.viewer import Backdrop

logger = logging.getLogger("bgsub")


class LiveServer:
    """Serve the page of one or more live runs until it is closed.

    Parameters
    ----------
    cameras : Controls, or mapping of str to Controls
        State of the run, or of each camera by name.
    host : str
        Name or address to bind to; by default this machine only.
    port : int
        TCP port; 0 for a free one.
    token : str, optional
        Secret that each request must have; by default random on hosts other than this machine.
    backdrop : callable, optional
        Background of the view cutout, see `bgsub.live.viewer.Viewer`.
    regions : RegionStore, optional
        Stores regions drawn on the page; by default they cannot be stored.

    Attributes
    ----------
    address : str
        Address of the page with the token.
    broadcasts : list of Broadcast
        The pictures of each camera, which are sinks of its run.

    Raises
    ------
    SinkError
        If the port is in use or the host is not one of this machine.
    ParameterError
        For an invalid port or token.
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

    def sink(self, camera: int = 0) -> Broadcast:
        """Return the sink for the frames of a camera."""
        return self.broadcasts[camera]

    def close(self) -> None:
        """End the streams and all threads; may be called more than once."""
        for broadcast in self.broadcasts:
            broadcast.end()
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.connections.close_all()
        self._server.server_close()

    def __enter__(self) -> LiveServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Server(http.server.ThreadingHTTPServer):
    """One thread per connection; `server_close` waits for all of them."""

    daemon_threads = False
    request_queue_size = 128  # with a short queue, one client that connects often could delay others

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
        """Bind without the slow lookup of the full host name."""
        socketserver.TCPServer.server_bind(self)
        self._access.cookie += f"-{self.server_address[1]}"

    @property
    def address(self) -> str:
        """Address of the page."""
        host, port = self.server_address[:2]
        shown = socket.gethostname() if host in ("0.0.0.0", "::") else str(host)
        shown = f"[{shown}]" if ":" in shown else shown
        return f"http://{shown}:{port}/" + (f"?token={self._access.token}" if self._access.token else "")

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connections.add(request, client_address[0])
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self.connections.remove(request)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Close expired connections; called between connections and several times a second."""
        self.connections.close_expired()

    def handle_error(self, request: Any, client_address: Any) -> None:
        logger.debug("the connection from %s broke", client_address[0], exc_info=True)
