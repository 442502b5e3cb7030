"""The pseudo-experts of a run, in memory and in files."""

from __future__ import annotations

import pytest
import torch

from gumbeldore.training.dataset import PseudoExperts
from problems.tsp import TSP, Instance
from tests.helpers.solutions import random_experts


def test_dataset_appends_restores_and_prunes(tmp_path):
    dataset = PseudoExperts(tmp_path)
    for epoch in range(4):
        if epoch == 2:
            dataset.clear()
        dataset.add(f"epoch_{epoch}", *random_experts(10, 6, epoch))
    assert len(dataset) == 20 and [shard.name for shard in dataset.shards] == ["epoch_2", "epoch_3"]
    assert len(list(tmp_path.iterdir())) == 4  # forgotten ones are still there ...
    (tmp_path / "epoch_9.npz.gumbeldore-tmp").write_bytes(b"torn")
    dataset.prune()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["epoch_2.npz", "epoch_3.npz"]  # ... until now

    again = PseudoExperts(tmp_path)
    again.restore(["epoch_2", "epoch_3"], Instance)
    draws = [d.batch(TSP(6), 64, torch.Generator().manual_seed(1)) for d in (dataset, again)]
    assert torch.equal(draws[0].remaining_actions, draws[1].remaining_actions)
    assert torch.equal(draws[0].instance.coords, draws[1].instance.coords)
    with pytest.raises(ValueError, match="there is no file .*epoch_1.npz"):
        again.restore(["epoch_1"], Instance)


def test_batches_hold_one_size_and_every_step():
    dataset, problem = PseudoExperts(), TSP(6)
    dataset.add("small", *random_experts(10, 6))
    dataset.add("large", *random_experts(30, 9))
    dataset.add("more small", *random_experts(10, 6, 2))
    draws = torch.Generator().manual_seed(0)
    seen = {6: set(), 9: set()}
    for _ in range(300):
        example = dataset.batch(problem, 4, draws)
        seen[example.instance.coords.shape[1]].add(example.state.remaining.shape[1])
        assert problem.mask(example.instance, example.state).gather(1, example.remaining_actions[:, :1]).all()
    assert seen == {6: {2, 3, 4, 5}, 9: {2, 3, 4, 5, 6, 7, 8}}  # from two remaining nodes up
    with pytest.raises(ValueError, match="no pseudo-experts"):
        PseudoExperts().batch(problem, 4, draws)
