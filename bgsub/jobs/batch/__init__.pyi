from .dispatch import BatchResult as BatchResult
from .manifest import Entry as Entry
from .run import run_batch as run_batch
