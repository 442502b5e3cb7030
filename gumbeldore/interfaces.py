"""The contracts between the core and everything a user brings: problems, policies, instance sets.

Shape legend, used in every comment of the project:
    B instances · K beam width · A actions · T horizon (decisions per solution)
    R flat rows (usually B*K) · L solutions per instance (rounds * K at most) · W trie nodes per depth

An *instance*, a *state* and a *context* are immutable NamedTuples of tensors whose leading dimension is
the batch; the core only ever indexes that dimension (`take`) or moves them between devices (`to`).
Costs are to be minimised, everywhere a user sees them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import torch
from torch import Tensor, nn

Tensors = TypeVar("Tensors", bound=tuple)


@runtime_checkable
class Problem(Protocol):
    """A combinatorial problem whose solutions are built by T successive decisions among A actions.

    All methods are pure and batched over rows; no Python loop over rows. `problem_contract` checks an
    implementation. Optional methods the core uses when present:
        replay(instance, actions [R, q]) -> State         the state after q decisions, faster than q steps
        augment(instance, actions, step, generator) -> (instance, actions)   an equivalent solved instance, of which the
            decisions from `step` on will be imitated
        reorder(instance, actions, step, generator) -> actions   likewise: the solution by decisions in another order
        at(progress) -> Problem                           what to train on after a share `progress` of the epochs
        check(instance) -> None                           raises ValueError unless all instances are well-formed
        load(source, limit) -> list[Benchmark]            evaluation sets by name or file
        validation(n) -> list[Benchmark]                  the fixed validation set of training, a Benchmark per size
        solution(actions [T]) -> list                     one solution in the user's terms (e.g. a tour)
        size(instance) -> str                             the size of its instances as tables show it
        describe(actions [n, T]) -> dict[str, Tensor [n]]   further numbers of solutions, e.g. of routes
        details(originals, index, actions [T]) -> (file, columns, rows)   one solution's rows in a table of them all
        solution_file(benchmark, index, actions [T], cost) -> (suffix, text) | None   one solution as a file that other
            programs read; None for an instance that did not come in such a format
        render(instance, actions [R, T], titles) -> figure      pictures of solutions, also of `originals`
    """

    name: str

    def generate(self, n: int, generator: torch.Generator) -> Any:
        """Draw n random training instances."""

    def num_actions(self, instance: Any) -> int:
        """A, the size of the action space."""

    def horizon(self, instance: Any) -> int:
        """T, the number of decisions of every solution."""

    def last_choice(self, instance: Any) -> int:
        """Index of the last decision that is not always forced; training learns decisions 0..last_choice."""

    def reset(self, instance: Any) -> Any:
        """The state before the first decision."""

    def step(self, instance: Any, state: Any, action: Tensor) -> Any:
        """The state after `action` [R]; a finished row is absorbing, with exactly one legal action."""

    def mask(self, instance: Any, state: Any) -> Tensor:
        """bool [R, A], True = legal; no row is all False."""

    def cost(self, instance: Any, actions: Tensor) -> Tensor:
        """Cost [R] of complete action sequences [R, T], lower is better, from the actions alone.

        Raises ValueError if a sequence is not a legal solution.
        """


class Policy(nn.Module):
    """A network that scores the next action; a subclass defines `forward`, the other methods have defaults.

    `policy_contract` checks a subclass.
    """

    problem: str | None = None  # name of the only problem that the policy is for; None: any problem

    def encode(self, instance: Any) -> Any:
        """The context: a NamedTuple of [R, ...] that depends on the instance alone, computed once per search.

        By default the instance itself.
        """
        return instance

    def forward(self, context: Any, state: Any) -> Tensor:
        """Logits [R, A], float32 or float64. The caller applies the mask and the log-softmax."""
        raise NotImplementedError(f"{type(self).__name__} defines no forward(context, state)")

    def canonical_state(self, instance: Any, state: Any) -> Any:
        """The state without whatever makes no difference to the logits, by default the state itself.

        A search evaluates states of one instance with equal canonical states once.
        """
        return state

    def with_auxiliary_loss(self, context: Any, state: Any, remaining_actions: Tensor) -> tuple[Tensor, Tensor]:
        """The logits [R, A] of `forward`, and an auxiliary loss [] that training adds to the cross-entropy.

        By default the loss is zero.

        Arguments:
            remaining_actions: [R, T - q] all decisions of the expert from the state on; the first column is the target
        """
        logits = self(context, state)
        return logits, logits.new_zeros(())


class Benchmark(NamedTuple):
    """Instances of one size to be solved, with their true cost and what is known of them."""

    names: list[str]  # n
    instances: Any  # [n, ...] as the network sees them
    originals: Any  # [n, ...] in their own units, as solvers see them
    true_cost: Callable[[Tensor, Tensor], Tensor]  # (index [m], actions [m, T]) -> cost [m] float64, of the originals
    references: Tensor  # [n] float64 cost of the reference solution, NaN where there is none
    kinds: list[str]  # n; how good each reference is, e.g. "optimal (Concorde)"; empty where there is none
    means: dict[str, float] = {}  # further reference by its kind, known only as the mean cost of all n
    solutions: dict[int, Tensor] = {}  # by index, the actions [T] of those references that are more than a cost


def take(tensors: Tensors, rows: Tensor | slice) -> Tensors:
    """The given rows of every tensor of a NamedTuple: a slice, or numbers int64 [n] from 0 on the same device.

    Two fields that are one tensor are one afterwards, too.
    """
    each = {id(tensor): tensor for tensor in tensors}
    if isinstance(rows, slice):
        taken = {key: tensor[rows] for key, tensor in each.items()}
    else:
        taken = {key: tensor.index_select(0, rows) for key, tensor in each.items()}  # several times as fast
    return type(tensors)(*(taken[id(tensor)] for tensor in tensors))


def to(tensors: Tensors, device: torch.device | str) -> Tensors:
    """Every tensor of a NamedTuple on `device`."""
    return type(tensors)(*(moved(tensor, torch.device(device)) for tensor in tensors))


def moved(tensor: Tensor, device: torch.device) -> Tensor:
    """The tensor on `device`. From memory that is not pinned a GPU copies more than 64 KiB only once it is idle."""
    if device.type == "cuda" and tensor.device.type == "cpu":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)


def batch_size(tensors: tuple) -> int:
    """Length of the leading dimension of a NamedTuple of tensors."""
    return tensors[0].shape[0]


def replay(problem: Problem, instance: Any, actions: Tensor) -> Any:
    """The state after the decisions `actions` [R, q] (q >= 0), built by the code the search uses."""
    if hasattr(problem, "replay"):
        return problem.replay(instance, actions)
    state = problem.reset(instance)
    for action in actions.unbind(dim=1):
        state = problem.step(instance, state, action)
    return state


def size_name(problem: Problem, instances: Any) -> str:
    """The size of instances as tables show it."""
    return problem.size(instances) if hasattr(problem, "size") else f"{problem.horizon(instances)} decisions"
