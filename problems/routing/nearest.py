"""The local view: of the remaining nodes a policy sees the nearest ones, and can go to these alone."""

from __future__ import annotations

from torch import Tensor


def nearest_view(coords: Tensor, origin: Tensor, remaining: Tensor, nearest: int | None) -> Tensor:
    """The `nearest` of the remaining nodes to the origin, ascending [R, k]; all of them [R, n] if there are no more.

    Arguments:
        coords: [R, N, 2] of all nodes
        origin: [R] the node from which distances count
        remaining: [R, n] nodes, ascending
    """
    if nearest is None or remaining.shape[1] <= nearest:
        return remaining
    points = coords.gather(1, remaining[..., None].expand(-1, -1, 2))
    here = coords.gather(1, origin[:, None, None].expand(-1, -1, 2))
    closest = (points - here).norm(dim=-1).topk(nearest, dim=1, largest=False).indices
    return remaining.gather(1, closest).sort(dim=1).values
