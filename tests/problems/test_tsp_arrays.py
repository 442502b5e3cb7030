"""Instances of the TSP in `.npz` files."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from problems.tsp.sets import TSPSets
from tests.helpers.solutions import identity


@pytest.mark.parametrize("beyond", ["below", "above"])
def test_npz_keeps_unit_squares_and_scales_others_by_one_factor(tmp_path, beyond):
    coords = np.random.RandomState(0).uniform(0.2, 0.8, size=(3, 6, 2))
    coords[1] = coords[1] - 0.5 if beyond == "below" else coords[1] * 10
    path = tmp_path / "mine.npz"
    np.savez(path, coords=coords, cost=[2.0, np.nan, 3.0], reference="my solver")
    (instance_set,) = TSPSets().load(str(path))
    assert instance_set.names == ["mine/0", "mine/1", "mine/2"]
    assert instance_set.kinds == ["my solver", "", "my solver"]
    assert instance_set.references.isnan().tolist() == [False, True, False]
    seen = instance_set.instances.coords.numpy()
    assert np.array_equal(seen[[0, 2]], coords[[0, 2]].astype(np.float32))
    shifted = coords[1] - coords[1].min(axis=0)
    assert np.allclose(seen[1], shifted / shifted.max(), atol=1e-6)
    tours = [np.r_[coords[i], coords[i, :1]] for i in range(3)]
    expected = [np.linalg.norm(np.diff(tour, axis=0), axis=1).sum() for tour in tours]
    assert instance_set.true_cost(torch.arange(3), identity(instance_set, 3)).tolist() == pytest.approx(
        expected, rel=1e-12
    )
    (part,) = TSPSets().load(str(path), 2)
    assert len(part.names) == len(part.references) == 2
    assert torch.equal(part.instances.coords, instance_set.instances.coords[:2])


def test_npz_without_costs_has_no_reference(tmp_path):
    np.savez(tmp_path / "a.npz", coords=np.zeros((2, 3, 2), dtype=np.float32))
    (instance_set,) = TSPSets().load(str(tmp_path / "a.npz"))
    assert instance_set.kinds == ["", ""] and instance_set.references.isnan().tolist() == [True, True]
    np.savez(tmp_path / "b.npz", coords=np.zeros((2, 3, 2)), cost=[1, 2])
    assert TSPSets().load(str(tmp_path / "b.npz"))[0].kinds == ["cost of b.npz"] * 2


GOOD = np.full((2, 4, 2), 0.5)


def test_each_reference_may_have_a_kind_of_its_own(tmp_path):
    np.savez(tmp_path / "mine.npz", coords=GOOD, cost=[2.0, np.nan], reference=["a guess", "none"])
    assert TSPSets().load(str(tmp_path / "mine.npz"))[0].kinds == ["a guess", ""]


@pytest.mark.parametrize(
    ("arrays", "rule"),
    [
        ({"points": GOOD}, r"must hold coords or distances and may hold cost and reference, got \['points'\]"),
        ({"coords": GOOD, "costs": [1.0, 2.0]}, r"got \['coords', 'costs'\]"),
        ({"coords": GOOD[0]}, r"numbers \[n, N, 2\] with n >= 1 and N >= 3, got float64 \[4, 2\]"),
        ({"coords": GOOD[:0]}, r"got float64 \[0, 4, 2\]"),
        ({"coords": GOOD.astype(str)}, r"got <U32 \[2, 4, 2\]"),
        ({"coords": np.array([None, "a"])}, "not a readable .npz file without pickled objects"),
        ({"coords": GOOD * [[[1.0]], [[np.nan]]]}, r"lie within \+-1e\+12, instance 1 does not"),
        ({"coords": GOOD, "cost": [1.0]}, r"cost must be 2 numbers .*, got float64 \[1\]"),
        ({"coords": GOOD, "cost": [1.0, -1.0]}, "cost must be 2 numbers >= 0, .* got -1.0 at 1"),
        (
            {"coords": GOOD, "cost": [1.0, 2.0], "reference": ["a"]},
            r"reference must be one string or one per .*, got <U1 \[1\]",
        ),
        (
            {"coords": GOOD, "cost": [1.0, 2.0], "reference": 3},
            "reference must be one string or one per instance, got int64",
        ),
    ],
)
def test_malformed_npz_are_refused(tmp_path, arrays, rule):
    np.savez(tmp_path / "bad.npz", **arrays)
    with pytest.raises(ValueError, match=rf"bad\.npz.*{rule}"):
        TSPSets().load(str(tmp_path / "bad.npz"))
