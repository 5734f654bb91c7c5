from .tracker import SubspaceTracker as SubspaceTracker
