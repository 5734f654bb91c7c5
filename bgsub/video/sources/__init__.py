"""Where frames come from: video files, image sequences, cameras, arrays; public are the names of `bgsub.video`."""

from bgsub._faces import inner

__getattr__ = inner(__name__)
