"""What the policies share: tokens of a state, and the logits read off them."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from models.micro_batches import in_micro_batches


class TokenPolicy(nn.Module):
    """A policy in two halves, of which training reads more off the first than the logits.

    Subclasses define
        tokens(context, state) -> list of [R, n, width]     what the transformer makes of the state; the last is the end
        logits(context, state, x) -> [R, A]                 of the last
        further_loss(context, state, tokens, rest) -> []    what else the expert's `rest` [R, n] of the solution teaches
        row_size(context, state) -> RowSize                 what a row takes

    Arguments, by the name of the weight:
        weight: of the further loss; 0 leaves it out
    """

    def __init__(self, **weight: float):
        super().__init__()
        ((name, self.further_weight),) = weight.items()
        if self.further_weight < 0:
            raise ValueError(f"{name} must be at least 0, got {self.further_weight}")

    def encode(self, instance: Any) -> Any:
        """Nothing is worth keeping: embedding a few numbers is cheaper than gathering their embeddings."""
        return instance

    def forward(self, context: Any, state: Any) -> Tensor:
        """Logits [R, A]."""
        return in_micro_batches(self, context, state)

    def imitate(self, context: Any, state: Any, rest: Tensor) -> tuple[Tensor, Tensor]:
        """The logits, and the weighted further loss."""
        tokens = self.tokens(context, state)
        further = tokens[-1].new_zeros(())
        if self.further_weight:
            further = self.further_weight * self.further_loss(context, state, tokens, rest)
        return self.logits(context, state, tokens[-1]), further

    def forward_at_once(self, context: Any, state: Any) -> Tensor:
        """`forward` without micro-batches."""
        return self.logits(context, state, self.tokens(context, state)[-1])
