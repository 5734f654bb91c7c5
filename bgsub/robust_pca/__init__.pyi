from .estimator import RobustPCA as RobustPCA
from .progress import Progress as Progress
