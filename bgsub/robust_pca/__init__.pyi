from .estimator import RobustPCA as RobustPCA
from .parameters import Progress as Progress
