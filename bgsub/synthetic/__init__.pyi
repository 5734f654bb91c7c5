from ._matrices import low_rank_plus_sparse as low_rank_plus_sparse
from ._scene import MOVING as MOVING
from ._scene import SHADOW as SHADOW
from ._scene import UNKNOWN as UNKNOWN
from ._scene import Scene as Scene
from .scenes import SCENES as SCENES
from .scenes import scene as scene
