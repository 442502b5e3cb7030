"""The papers' further experiments; study.py runs one of them."""

from typing import Any

from gumbeldore.studies.curves import Curves
from gumbeldore.studies.diversity import Diversity
from gumbeldore.studies.estimators import Estimators
from gumbeldore.studies.step_size import StepSize
from gumbeldore.studies.study import Study

STUDIES: dict[str, type[Study[Any, Any]]] = {
    "curves": Curves,
    "step_size": StepSize,
    "estimators": Estimators,
    "diversity": Diversity,
}
