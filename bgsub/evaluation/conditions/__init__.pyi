from ._table import CONDITIONS as CONDITIONS
from ._table import SCENES as SCENES
from ._table import derive as derive
from ._table import synthetic as synthetic
from ._table import transplant as transplant
