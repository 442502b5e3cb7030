"""BQ for the TSP with a local view: the nodes near the origin, and a map of all that remain."""

from __future__ import annotations

import torch
from torch import Tensor

from models.bq_tsp import BQ
from models.layers import FullPrecisionLinear
from models.local_view import FEATURES, View, features, grid, map_of, rings
from models.micro_batches import RowSize
from problems.tsp import State
from problems.tsp.instances import Instance

SECTORS = 6


class LocalBQ(BQ):
    """Logits of the next node from [origin, nodes in view, destination, map].

    Arguments:
        width, layers, heads, feedforward, successor_loss: as of BQ
        map: the map has map x map cells; 0: there is none
    """

    def __init__(
        self, width: int, layers: int, heads: int, feedforward: int, map: int, successor_loss: float, rings: int = 0
    ):
        super().__init__(width, layers, heads, feedforward, True, successor_loss)
        self.map, self.rings = map, rings
        self.cells = rings * SECTORS if rings else map**2
        self.embed = FullPrecisionLinear(FEATURES, width)
        self.embed_cell = FullPrecisionLinear(FEATURES + 1, width) if self.cells else None

    def row_size(self, context: Instance, state: State) -> RowSize:
        tokens = state.near.shape[1] + 2 + self.cells
        return RowSize(self.layers[0].heads * tokens**2, tokens * len(self.origin))

    def tokens(self, context: Instance, state: State) -> list[Tensor]:
        """The tokens [R, k+2, width] after all layers, without those of the map."""
        (x,) = super().tokens(context, state)
        return [x[:, : state.near.shape[1] + 2]]

    def embedded(self, context: Instance, state: State) -> Tensor:
        nodes = torch.cat([state.origin[:, None], state.near, state.destination[:, None]], dim=1)
        points = context.coords.gather(1, nodes[..., None].expand(-1, -1, 2))  # [R, k+2, 2]
        view = View.of(points)
        x = self.embed(features(view.place(points)))
        parts = [x[:, :1] + self.origin, x[:, 1:-1], x[:, -1:] + self.destination]
        if self.embed_cell is not None:
            rest = context.coords.gather(1, state.remaining[..., None].expand(-1, -1, 2))
            placed = view.place(rest)
            cell = rings(placed, self.rings, SECTORS) if self.rings else grid(context.coords, rest, self.map)
            centre, share = map_of(placed, torch.ones_like(placed[..., 0]), cell, self.cells)
            parts.append(self.embed_cell(torch.cat([features(centre), share], dim=2)))
        return torch.cat(parts, dim=1)
