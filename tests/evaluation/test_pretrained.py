"""The shipped policies load and are as good as their card says."""

from __future__ import annotations

from pathlib import Path

import pytest

from gumbeldore.evaluation.loading import load_policy
from gumbeldore.evaluation.solve import solve, summarise
from gumbeldore.parallel.pool import SearchPool
from gumbeldore.sampler import methods

FOLDER = Path(__file__).parents[2] / "pretrained"

# name -> instances, and a greedy gap that a policy of about the card's quality stays below on the first 50 of them
SHIPPED = {
    "tsp20": ("kool/tsp20", 0.015),
    "tsp50": ("kool/tsp50", 0.03),
    "cvrp20": ("kool/cvrp20", 0.05),
    "cvrp50": ("kool/cvrp20", 0.06),
    "jssp6x6": ("l2d/6x6", 0.05),
}


def test_every_shipped_policy_has_a_card_and_is_tested():
    folders = {path.name for path in FOLDER.iterdir() if path.is_dir()}
    card = (FOLDER / "README.md").read_text()
    assert folders == set(SHIPPED) and all(f"`{name}`" in card for name in folders)


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_policies_are_as_good_as_their_card_says(name):
    source, most = SHIPPED[name]
    problem, policy, *_ = load_policy(FOLDER / name)
    (benchmark,) = problem.load(source, 50)
    with SearchPool(problem, policy) as pool:
        greedy = solve(pool, benchmark, methods.greedy(), seed=0)
        sampled = solve(pool, benchmark, methods.gumbeldore(8, 2, step_size=0.3), seed=0)
    gap, sampled_gap = (summarise([found], [benchmark]).mean_gap for found in (greedy, sampled))
    assert sampled_gap < gap < most


def test_shipped_files_are_small():
    assert all(path.stat().st_size < 3e6 for path in FOLDER.rglob("*.pt"))
