"""The networks of the authors' published checkpoints [GD], where they compute something else than the paper's reading.

`python -m gumbeldore.cli.import_checkpoint` chooses them. Their TSP networks compute what `bq_tsp.BQ` and
`lehd_tsp.LEHD` do.
"""

from __future__ import annotations

import torch
from torch import Tensor

from models import bq_cvrp, lehd_cvrp
from models.attention import MASKED_SCORE
from models.job_shop import JobShop
from models.layers import ReZeroLayer
from models.shop_attention import attention_patterns
from models.shop_policy import CanonicalState
from problems import cvrp, jssp
from problems.cvrp.instances import Instance as CVRPInstance
from problems.jssp.instances import Instance as JSSPInstance
from problems.jssp.state import earliest_starts


class CVRPBQ(bq_cvrp.BQ):
    """BQ with one token for the depot: where the vehicle is in the depot, the origin's token is the depot's."""

    def __init__(self, width: int, layers: int, heads: int, feedforward: int):
        super().__init__(width, layers, heads, feedforward, canonical_coordinates=False, route_loss=0.0)

    def tokens(self, context: CVRPInstance, state: cvrp.State) -> list[Tensor]:
        """The tokens [R, k+2, width] after half of the layers, and after all layers."""
        x = self.embedded(context, state)
        in_depot = (state.origin == 0)[:, None, None]
        x = torch.cat([x[:, :1] + in_depot * self.depot, x[:, 1:]], dim=1)
        return self.layers.intermediate_outputs(x, second_depot_hidden(state))


class CVRPLEHD(lehd_cvrp.LEHD):
    """LEHD with one token for the depot: where the vehicle is in the depot, the origin's token is the depot's."""

    def __init__(self, width: int, layers: int, heads: int, feedforward: int):
        super().__init__(width, layers, heads, feedforward, route_loss=0.0)

    def tokens(self, context: lehd_cvrp.Nodes, state: cvrp.State) -> list[Tensor]:
        """The tokens [R, k+2, width] after half of the decoder's layers, and after all of them."""
        return self.decoder.intermediate_outputs(self.embedded(context, state), second_depot_hidden(state))


def second_depot_hidden(state: cvrp.State) -> Tensor | None:
    """A bias [R, 1, 1, k+2] that hides the last token, the depot, from all others where it is the origin, too.

    None if it hides nothing, as far as that can be told without waiting for the device.
    """
    in_depot = state.origin == 0
    if in_depot.device.type == "cpu" and not in_depot.any():
        return None
    bias = torch.zeros(len(in_depot), 1, 1, state.view.shape[1] + 2, dtype=torch.float32, device=in_depot.device)
    bias[..., -1] = torch.where(in_depot, MASKED_SCORE, 0.0)[:, None, None]
    return bias


class JSSPTransformer(JobShop):
    """The network for the JSSP, in which earliest starts count from the first one of all jobs, finished ones included.

    A finished job counts as if its last operation came again.

    Arguments:
        layers: job-wise and machine-wise in turn, job-wise first; at least two
    """

    def __init__(self, width: int, layers: int, heads: int, feedforward: int):
        super().__init__(width, layers // 2, heads, feedforward, lookahead=False, order_loss=0.0)
        self.odd_job_wise = ReZeroLayer(width, heads, feedforward) if layers % 2 else None

    def tokens(self, instance: JSSPInstance, state: jssp.State) -> list[Tensor]:
        """The tokens [R, v, width] of the operations in view, after all layers."""
        (x,) = super().tokens(instance, state)
        if self.odd_job_wise is not None:
            within_jobs, _ = attention_patterns(instance, state, self.between_jobs.heads)
            x = self.odd_job_wise(x, *within_jobs)
        return [x]

    def canonical_state(self, instance: JSSPInstance, state: jssp.State) -> jssp.State:
        """The state with times that count from the first earliest start of all jobs; a machine is free at once.

        The times of finished jobs are forgotten, which does not change the first earliest start: it is 0 afterwards.
        """
        start = earliest_starts(instance, state)
        from_first = start - start.amin(dim=1, keepdim=True)
        job_free = from_first.masked_fill(state.next_op == instance.times.shape[2], 0.0)
        return CanonicalState(*state._replace(job_free=job_free, machine_free=torch.zeros_like(state.machine_free)))
