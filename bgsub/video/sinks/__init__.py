"""Where results go: video files, image sequences, arrays; the public names are those of `bgsub.video`."""

from bgsub._faces import inner

__getattr__ = inner(__name__)
