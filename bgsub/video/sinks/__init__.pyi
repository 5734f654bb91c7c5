from .arrays import ArraySink as ArraySink
from .av import AvVideoSink as AvVideoSink
from .base import SEGMENT as SEGMENT
from .base import Sink as Sink
from .create import create_sinks as create_sinks
from .images import ImageSequenceSink as ImageSequenceSink
from .still import StillSink as StillSink
from .video import VideoSink as VideoSink
