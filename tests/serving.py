"""Servers in a thread."""

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class QuietServer:
    """A part of servers with threads: `serving` waits for the threads; errors of connections are ignored."""

    daemon_threads = False

    def handle_error(self, *_: object) -> None:
        """Ignore clients that close the connection."""


@contextmanager
def serving(server: socketserver.BaseServer) -> Iterator[None]:
    """Serve during the block, then close the server."""
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
