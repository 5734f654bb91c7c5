"""Addresses of cameras, which are shown without passwords."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bgsub.errors import ParameterError, SourceError
from bgsub.video.sources.camera_address import SCHEMES, is_camera, parse_camera, without_password


def test_without_password():
    expected = {
        "rtsp://host/stream": "rtsp://host/stream",
        "rtsp://user:secret@host:554/stream": "rtsp://host:554/stream",
        "rtsp://user@host/stream": "rtsp://host/stream",
        "rtsp://user:se@cret@host/stream": "rtsp://host/stream",
        "rtsp://user:secret/1@host/stream": "rtsp://host/stream",
        "rtsp://user:secret/@/2@host:554/stream": "rtsp://host:554/stream",
        "rtsp://host:554/cam@1": "rtsp://host:554/cam@1",
        "rtsp://host/cam@1": "rtsp://host/cam@1",
        "rtsp://[::1]:554/cam@1": "rtsp://[::1]:554/cam@1",
        "http://host/video?user=admin&pwd=secret&size=2": "http://host/video?user=admin&pwd=***&size=2",
        "http://host/video?Password=secret": "http://host/video?Password=***",
        "rtsp://host/user=admin_password=secret_channel=1": "rtsp://host/user=admin_password=***",
        "srt://host:9000?passphrase=secret": "srt://host:9000?passphrase=***",
    }
    assert {address: without_password(address) for address in expected} == expected


@settings(max_examples=40)
@given(st.text(st.characters(codec="ascii", exclude_characters="/@"), min_size=1), st.sampled_from(SCHEMES))
def test_no_password_is_ever_shown(password, scheme):
    address = f"{scheme}://user:<<{password}>>@host:80/stream"
    assert without_password(address) == f"{scheme}://host:80/stream"


def test_cameras():
    assert [is_camera(text) for text in ("0", "rtsp://a", "0.avi", "a/b")] == [True, True, False, False]
    assert parse_camera("7") == 7
    assert parse_camera("RTSP://host/1") == "RTSP://host/1"
    with pytest.raises(ParameterError, match="index of a camera must be 0 or more, got -2"):
        parse_camera(-2)
    with pytest.raises(SourceError, match=r"got 'gopher://host'$"):
        parse_camera("gopher://me:secret@host")
