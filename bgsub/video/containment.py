"""What FFmpeg may take for a video: pictures in a container or a stream, and nothing that sends it elsewhere for them.

A playlist (HLS, DASH, concat, SDP) makes FFmpeg open whatever other files and addresses stand in it. A camera or a
file decides by its first bytes what it is taken for, so that the kinds are named that may be.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager

from bgsub.video._process_wide import ProcessWide

_CONTAINERS = (
    "3dostr,4xm,amv,apng,asf,asf_o,avi,bfi,bink,cine,dhav,dv,dxa,filmstrip,flic,flv,gif,gxf,ifv,ipmovie,ivf,ivr,jv,kux,"
    "live_flv,lmlm4,lxf,matroska,mgsts,mlv,moflex,mov,mp4,mpeg,mpegts,mtv,mv,mvi,mxf,mxg,nsv,nut,nuv,ogg,pmp,psxstr,pva,"
    "r3d,rm,roq,rpl,ser,siff,smjpeg,smk,smush,swf,thp,tmv,ty,usm,vividas,vivo,vmd,webm,wtv,xmv,yop,yuv4mpegpipe"
)
_STREAMS = (
    "apv,av1,avs,avs2,avs3,cavsvideo,dirac,dnxhd,evc,h261,h263,h264,hevc,ingenient,ipu,m4v,mjpeg,mjpeg_2000,mpegvideo,"
    "mpjpeg,obu,rtp,rtsp,vc1,vc1test,vvc"
)
_PICTURES = "bmp_pipe,gif_pipe,image2,j2k_pipe,jpeg_pipe,jpegxl_anim,jpegxl_pipe,png_pipe,tiff_pipe,webp_pipe"

FORMATS = ",".join((_CONTAINERS, _STREAMS, _PICTURES))
"""Names of FFmpeg's readers of videos, but for those of playlists."""

_VARIABLE = "OPENCV_FFMPEG_CAPTURE_OPTIONS"
_DEFAULT = "rtsp_flags;prefer_tcp"  # what OpenCV itself sets while the variable is not there


def _contain() -> str | None:
    previous = os.environ.get(_VARIABLE)
    os.environ[_VARIABLE] = f"{previous or _DEFAULT}|format_whitelist;{FORMATS}"
    return previous


def _restore(previous: str | None) -> None:
    if previous is None:
        del os.environ[_VARIABLE]
    else:
        os.environ[_VARIABLE] = previous


_contained = ProcessWide(_contain, _restore)


def contained() -> AbstractContextManager[None]:
    """Have OpenCV open none but the `FORMATS` inside the block; blocks nest, also across threads.

    OpenCV takes options of FFmpeg from a variable of the environment only; those of the user stay.
    """
    return _contained.held()
