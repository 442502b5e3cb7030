"""BQ for the CVRP with a local view: the customers near the origin, and a map of all that remain."""

from __future__ import annotations

import torch
from torch import Tensor

from models.bq_cvrp import BQ
from models.layers import FullPrecisionLinear
from models.local_view import FEATURES, REACH, View, features, grid, map_of, rings
from models.micro_batches import RowSize
from problems.cvrp import State
from problems.cvrp.instances import Instance

SECTORS = 6
MOST_AHEAD = 3.0  # capacities: whether still more demand remains makes no difference


class LocalBQ(BQ):
    """Logits of the next customer, directly or via the depot, from [origin, customers in view, depot, map].

    Arguments:
        width, layers, heads, feedforward, route_loss: as of BQ
        map: the map has map x map cells; 0: there is none
    """

    def __init__(
        self, width: int, layers: int, heads: int, feedforward: int, map: int, route_loss: float, rings: int = 0
    ):
        super().__init__(width, layers, heads, feedforward, True, route_loss)
        self.map, self.rings = map, rings
        self.cells = rings * SECTORS if rings else map**2
        self.embed = FullPrecisionLinear(FEATURES + 6, width)
        self.embed_cell = FullPrecisionLinear(FEATURES + 2, width) if self.cells else None

    def row_size(self, context: Instance, state: State) -> RowSize:
        tokens = state.near.shape[1] + 2 + self.cells
        return RowSize(self.layers[0].heads * tokens**2, tokens * len(self.origin))

    def tokens(self, context: Instance, state: State) -> list[Tensor]:
        """The tokens [R, k+2, width] after half of the layers, and after all layers, without those of the map."""
        return [x[:, : state.near.shape[1] + 2] for x in super().tokens(context, state)]

    def embedded(self, context: Instance, state: State) -> Tensor:
        nodes = torch.cat([state.origin[:, None], state.near, torch.zeros_like(state.origin[:, None])], dim=1)
        points = context.coords.gather(1, nodes[..., None].expand(-1, -1, 2))  # [R, k+2, 2]
        view = View.of(points)
        placed = view.place(points)
        depot = placed[:, -1:]
        away = depot.norm(dim=-1, keepdim=True)  # [R, 1, 1] of the origin from the depot

        def detour(placed: Tensor) -> Tensor:
            """How much farther from the depot than the origin."""
            return ((placed - depot).norm(dim=-1, keepdim=True) - away).clamp(-REACH, REACH)

        capacity = context.capacity[:, None].float()
        demand = (context.demands.gather(1, nodes) / capacity)[..., None]
        left = state.left[:, None] / capacity
        demands = context.demands.gather(1, state.remaining).float()
        ahead = demands.sum(dim=1, keepdim=True) / capacity - left
        whole = torch.cat([left, ahead.clamp(max=MOST_AHEAD), ahead.ceil() - ahead, away[..., 0].log1p()], dim=1)
        whole = whole[:, None].expand(-1, nodes.shape[1], -1)
        x = self.embed(torch.cat([features(placed), detour(placed), demand, whole], dim=2))
        parts = [x[:, :1] + self.origin, x[:, 1:-1], x[:, -1:] + self.depot]
        if self.embed_cell is not None:
            rest = context.coords.gather(1, state.remaining[..., None].expand(-1, -1, 2))
            seen = view.place(rest)
            cell = rings(seen, self.rings, SECTORS) if self.rings else grid(context.coords, rest, self.map)
            centre, share = map_of(seen, demands, cell, self.cells)
            parts.append(self.embed_cell(torch.cat([features(centre), detour(centre), share], dim=2)))
        return torch.cat(parts, dim=1)
