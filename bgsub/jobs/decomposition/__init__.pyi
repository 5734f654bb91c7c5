from .run import DecompositionJob as DecompositionJob
from .run import DecompositionResult as DecompositionResult
from .run import run_decomposition as run_decomposition
