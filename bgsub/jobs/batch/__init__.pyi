from .files import Entry as Entry
from .run import BatchResult as BatchResult
from .run import run_batch as run_batch
