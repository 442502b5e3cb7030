"""BQ for the TSP with a local view: the nodes near the origin, as they look from there."""

from __future__ import annotations

from torch import Tensor

from models.bq_tsp import BQ
from models.layers import FullPrecisionLinear
from models.local_view import VIEW_FEATURES, View, view_features


class LocalBQ(BQ):
    """Logits of the next node from [origin, nodes in view, destination], for `problem.nearest`.

    The nodes in view decide the scale, so that a view looks alike in instances of all sizes. The destination, which may
    be far away, is seen by its direction and distance.
    The arguments are those of BQ, whose canonical coordinates it always has.
    """

    def __init__(self, width: int, layers: int, heads: int, feedforward: int, successor_loss: float):
        super().__init__(width, layers, heads, feedforward, canonical_coordinates=True, successor_loss=successor_loss)
        self.embed = FullPrecisionLinear(VIEW_FEATURES, width)

    def features(self, points: Tensor) -> Tensor:
        """The place of each point in the view, and its distance from the origin."""
        return view_features(View.of(points).place(points))
