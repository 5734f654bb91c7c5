from .estimator import RobustPCA as RobustPCA
from .parameters import default_rank as default_rank
from .progress import Progress as Progress
