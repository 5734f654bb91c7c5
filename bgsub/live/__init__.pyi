from .page_commands import RegionStore as RegionStore
from .session import LiveSession as LiveSession
from .window import WindowSink as WindowSink
