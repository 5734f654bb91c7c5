"""Outputs: video files, image sequences and arrays. Public names are in `bgsub.video`."""
