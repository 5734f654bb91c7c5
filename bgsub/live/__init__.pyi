from .loopback_camera import LoopbackCamera as LoopbackCamera
from .region_store import RegionStore as RegionStore
from .session import LiveCamera as LiveCamera
from .session import LiveSession as LiveSession
from .virtual_camera import VirtualCameraSink as VirtualCameraSink
from .window import WindowSink as WindowSink
