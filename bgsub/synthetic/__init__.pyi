from ._matrices import low_rank_plus_sparse as low_rank_plus_sparse
from .scenes import MOVING as MOVING
from .scenes import SCENES as SCENES
from .scenes import SHADOW as SHADOW
from .scenes import UNKNOWN as UNKNOWN
from .scenes import Scene as Scene
from .scenes import scene as scene
