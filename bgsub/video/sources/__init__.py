"""Inputs: video files, image sequences, cameras and arrays. Public names are in `bgsub.video`."""
