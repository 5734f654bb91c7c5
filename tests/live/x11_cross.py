"""What the cross of a window sends, for a screen without a window manager: ``python x11_cross.py WINDOW``."""

import ctypes
import sys


class ClientMessage(ctypes.Structure):
    """XClientMessageEvent, as long as an XEvent."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("serial", ctypes.c_ulong),
        ("send_event", ctypes.c_int),
        ("display", ctypes.c_void_p),
        ("window", ctypes.c_ulong),
        ("message_type", ctypes.c_ulong),
        ("format", ctypes.c_int),
        ("data", ctypes.c_long * 5),
        ("rest", ctypes.c_long * 24),
    )


def main() -> None:
    x = ctypes.CDLL("libX11.so.6")
    x.XOpenDisplay.restype, x.XInternAtom.restype = ctypes.c_void_p, ctypes.c_ulong
    display = ctypes.c_void_p(x.XOpenDisplay(None))
    protocols, delete = (x.XInternAtom(display, name, 0) for name in (b"WM_PROTOCOLS", b"WM_DELETE_WINDOW"))
    window = int(sys.argv[1])
    event = ClientMessage(33, 0, 1, display, window, protocols, 32, (ctypes.c_long * 5)(delete))
    assert x.XSendEvent(display, ctypes.c_ulong(window), 0, 0, ctypes.byref(event))
    x.XCloseDisplay(display)


if __name__ == "__main__":
    main()
