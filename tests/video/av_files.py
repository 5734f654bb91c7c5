"""Small video files of all kinds: variable rate, rotated, B-frames, grey, more than 8 bits, with sound."""

from fractions import Fraction

import numpy as np

from bgsub.video._pyav import av

SAMPLES = 48_000  # of sound per second


def write_av(
    path, frames, stamps=None, codec="libx264", pix_fmt="yuv420p", rotation=None, sound=0, audio="aac", fps=25,
    ticks=1000, format=None, container=None,
    title="", **options,
):  # fmt: skip
    """Write (n, h, w) or (n, h, w, 3) frames at `stamps` in `ticks` per second, by default 25 a second.

    `sound` are samples (n,) int16, or the seconds of silence; `options` are those of the video stream.
    """
    stamps = [ticks * index // 25 for index in range(len(frames))] if stamps is None else stamps
    with av.open(path, "w", format, options=container) as file:
        file.metadata["title"] = title
        stream = file.add_stream(codec, rate=fps, options=options)
        stream.height, stream.width = frames.shape[1:3]
        stream.pix_fmt = pix_fmt
        stream.time_base = stream.codec_context.time_base = Fraction(1, ticks)
        if rotation is not None:
            stream.set_display_rotation(rotation)
        samples = np.zeros(round(SAMPLES * sound), np.int16) if np.isscalar(sound) else sound
        sound_stream = file.add_stream(audio, rate=SAMPLES, layout="mono") if samples.size else None
        kind = "bgr24" if frames.ndim == 4 else "gray" if frames.dtype == np.uint8 else "gray16le"
        for image, stamp in zip(frames, stamps, strict=True):
            picture = av.VideoFrame.from_ndarray(np.ascontiguousarray(image), format=kind)
            picture.pts, picture.time_base = stamp, Fraction(1, ticks)
            file.mux(stream.encode(picture))
        file.mux(stream.encode())
        if sound_stream is not None:
            _write_sound(file, sound_stream, samples, stamps[0] * SAMPLES // ticks)
    return path


def write_sound(path):
    """Write a file with sound and without pictures."""
    with av.open(str(path), "w") as file:
        _write_sound(file, file.add_stream("aac", rate=SAMPLES, layout="mono"), np.zeros(SAMPLES, np.int16), 0)
    return path


def _write_sound(file, stream, samples, begin):
    for start in range(0, len(samples), SAMPLES // 25):
        part = av.AudioFrame.from_ndarray(samples[np.newaxis, start : start + SAMPLES // 25], "s16", "mono")
        part.sample_rate, part.pts, part.time_base = SAMPLES, begin + start, Fraction(1, SAMPLES)
        file.mux(stream.encode(part))
    file.mux(stream.encode())


def film(count, height=48, width=64):
    """A bright block that moves over a gradient, each frame different: (count, height, width, 3) uint8."""
    rows, columns = np.mgrid[:height, :width]
    frames = np.empty((count, height, width, 3), np.uint8)
    for index, frame in enumerate(frames):
        frame[...] = np.dstack([columns * 2 + index % 50, rows * 3, np.full_like(rows, 40 + index % 90)])
        left = 3 * index % (width - 12)
        frame[8:24, left : left + 12] = 20 * (index % 7), 255 - index % 100, 200
    return frames


def copy_packets(source, target, change):
    """Copy the packets of a video; `change` gets number and packet, and returns the new packet or None."""
    with av.open(source) as read, av.open(target, "w") as write:
        streams = {stream: write.add_stream_from_template(stream) for stream in read.streams}
        for number, packet in enumerate(read.demux()):
            if packet.size and (changed := change(number, packet)) is not None:
                changed.stream = streams[packet.stream]
                write.mux(changed)
    return target


def cut_packets(source, target, damaged):
    """Copy a file and fill the packets with the numbers `damaged` with noise."""

    def damage(number, packet):
        if number not in damaged:
            return packet
        noise = np.random.default_rng(number).integers(0, 256, packet.size, dtype=np.uint8)
        copy = av.Packet(noise.tobytes())
        copy.pts, copy.dts, copy.time_base = packet.pts, packet.dts, packet.time_base
        copy.is_keyframe = packet.is_keyframe
        return copy

    return copy_packets(source, target, damage)
