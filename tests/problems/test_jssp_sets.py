"""Evaluation sets of the JSSP: Taillard's and other recipes, best-known values, files of the user."""

from __future__ import annotations

import csv
import hashlib
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from problems.jssp import JSSP, shop_sets
from problems.jssp import sets as standard_sets
from problems.jssp.best_known import DATE
from problems.jssp.instances import random_instances
from problems.jssp.sets import L2D_SETS, JobShopSets
from problems.jssp.taillard import SIZES, taillard_instance, taillard_instances
from tests.helpers.schedules import plain_makespan

DATA = Path(__file__).parents[1] / "data" / "jssp"


def trivial_bound(times: torch.Tensor, machines: torch.Tensor) -> torch.Tensor:
    """A lower bound [n] of the makespans: the longest job, the busiest machine."""
    busy = torch.zeros_like(times).scatter_add_(2, machines, times).sum(dim=1)  # [n, M]
    return torch.maximum(times.sum(dim=2).amax(dim=1), busy.amax(dim=1))


def one_after_the_other(instance_set, rows: int = 1) -> torch.Tensor:
    """The actions of the schedules that finish job 0 before job 1 is looked at, and so on."""
    jobs, ops = instance_set.originals.times.shape[1:]
    return torch.arange(jobs).repeat_interleave(ops).repeat(rows, 1)


def write(path: Path, times: list, machines: list) -> Path:
    pairs = ("  ".join(f"{m} {t}" for m, t in zip(*row, strict=True)) for row in zip(machines, times, strict=True))
    path.write_text(f"{len(times)} {len(times[0])}\n" + "\n".join(pairs) + "\n")
    return path


def test_taillards_generator_gives_his_instances():
    times, machines = taillard_instance(15, 15, 840612802, 398197754)
    assert times.dtype == machines.dtype == np.int64
    assert times[0].tolist() == [94, 66, 10, 53, 26, 15, 65, 82, 10, 27, 93, 92, 96, 70, 83]
    assert machines[0].tolist() == [6, 12, 4, 7, 3, 2, 10, 11, 8, 14, 9, 13, 5, 0, 1]
    digits = hashlib.sha256()
    for instance in taillard_instances():
        digits.update(instance.times.tobytes() + instance.machines.tobytes())
    assert digits.hexdigest() == "88efd3b2abe2cc0ebe9665e6220774533ea6b826ee12e0d746f7cf8b928b00c2"


def test_a_folder_named_like_a_set_is_the_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert len(JobShopSets().load("ft")) == 3
    (tmp_path / "ft").mkdir()
    assert len(JobShopSets().load("ft")) == 3  # it is empty
    (tmp_path / "ft/mine.txt").write_text("1 2\n0 3 1 4\n")
    for source, warned in (("ft", True), ("./ft", False)):
        (mine,) = JobShopSets().load(source)
        assert mine.names == ["mine"] and len(mine.warnings) == warned
    (warning,) = JobShopSets().load("ft")[0].warnings
    rule = "not the standard set of this name; for that, start in another folder"
    assert warning == f"ft is {tmp_path / 'ft'}, {rule}"


def test_taillard_sets_have_all_references_and_these_fit():
    whole = JobShopSets().load("taillard")
    assert all((instance_set.originals.first == 1).all() for instance_set in whole)  # as in his files
    assert [(b.originals.times.shape[1:], len(b.names)) for b in whole] == [(size, 10) for size in SIZES]
    assert [name for b in whole for name in b.names] == [f"ta{i:02d}" for i in range(1, 81)]
    kinds = [kind for b in whole for kind in b.kinds]
    assert kinds.count("optimal") == 68 and kinds.count(f"best known {DATE}") == 12
    for instance_set in whole:
        times, machines = instance_set.originals[:2]
        bound = trivial_bound(times, machines)
        assert (bound <= instance_set.references).all() and (instance_set.references < 1.4 * bound).all()
        assert ((times >= 1) & (times <= 99)).all()
        assert torch.equal(instance_set.instances.times, times.float())  # the network sees them as they are
        assert torch.equal(instance_set.instances.machines, machines)
    tight = [int((trivial_bound(*b.originals[:2]) == b.references).sum()) for b in whole]
    assert tight == [0, 0, 0, 4, 0, 9, 5, 9]  # in most of the large ones a machine never waits


@pytest.mark.parametrize("size", SIZES)
def test_a_size_of_taillards_is_that_part_of_all(size):
    (part,) = JobShopSets().load(f"taillard/{size[0]}x{size[1]}")
    whole = JobShopSets().load("taillard")[SIZES.index(size)]
    assert part.names == whole.names and part.kinds == whole.kinds
    assert torch.equal(part.originals.times, whole.originals.times)
    (first,) = JobShopSets().load(f"taillard/{size[0]}x{size[1]}", 3)
    assert first.names == part.names[:3] and torch.equal(first.references, part.references[:3])


def test_the_classic_sets_are_those_that_bounds_are_published_for():
    """A reference is found by the numbers of an instance: that of its name, for every one."""
    with open(shop_sets.DATA / "jssp_best_known.csv", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["name"].startswith(("abz", "ft", "la", "orb"))]
    published = {row["name"]: (float(row["upper"]), int(row["jobs"]), int(row["machines"])) for row in rows}
    found = {}
    for instance_set in (each for name in ("abz", "ft", "la", "orb") for each in JobShopSets().load(name)):
        size = instance_set.instances.times.shape[1:]
        costs = zip(instance_set.names, instance_set.references.tolist(), strict=True)
        found |= {name: (cost, *size) for name, cost in costs}
    assert found == published
    assert [instance_set.names for instance_set in JobShopSets().load("ft", 2)] == [["ft06"], ["ft10"]]


@pytest.mark.parametrize("source", L2D_SETS)
def test_l2d_sets_are_cut(source):
    """They have a fingerprint: what does not follow the published recipe is not loaded."""
    jobs, machines = L2D_SETS[source]
    (whole,), (part,) = JobShopSets().load(source), JobShopSets().load(source, 7)
    assert whole.originals.times.shape == (100, jobs, machines)
    assert part.names == whole.names[:7] == [f"{source}/{i}" for i in range(7)]
    assert torch.equal(part.originals.machines, whole.originals.machines[:7])


def test_l2d_sets_use_optimal_costs_where_they_are_shipped(monkeypatch, tmp_path):
    monkeypatch.setattr(shop_sets, "DATA", tmp_path)
    assert not any(JobShopSets().load("l2d/6x6")[0].kinds)
    np.savez(tmp_path / "jssp_6x6_l2d.npz", cost=np.arange(100.0), fingerprint=standard_sets.L2D_FINGERPRINTS[6, 6])
    (instance_set,) = JobShopSets().load("l2d/6x6", 4)
    assert instance_set.references.tolist() == [0, 1, 2, 3] and set(instance_set.kinds) == {"optimal (CP-SAT)"}
    np.savez(tmp_path / "jssp_6x6_l2d.npz", cost=np.arange(100.0), fingerprint="those of another set")
    assert not any(JobShopSets().load("l2d/6x6")[0].kinds)


def test_validation_sets_are_prefixes_with_references_where_shipped():
    whole = JobShopSets().validation(6, 6, 500)
    assert whole.kinds == ["optimal (CP-SAT)"] * 500
    bound = trivial_bound(*whole.originals[:2]).double()
    assert (bound <= whole.references).all() and (whole.references < 1.7 * bound).all()
    # Measured: 0.68 in the order of the instances, -0.03 when shifted by one.
    assert torch.corrcoef(torch.stack([bound, whole.references]))[0, 1] > 0.6
    several = JSSP([[4, 3]], [[6, 6], [4, 3]]).validation(5, seed=0)
    assert [len(each.names) for each in several] == [3, 2] and several[1].names[0] == "validation/4x3/0"
    with pytest.raises(ValueError, match="2 validation sizes need at least as many validation instances, got 1"):
        JSSP([[4, 3]], [[6, 6], [4, 3]]).validation(1, seed=0)
    part = several[0]
    assert part.names == whole.names[:3] and torch.equal(part.references, whole.references[:3])
    assert torch.equal(part.instances.times, whole.instances.times[:3])
    beyond = JobShopSets().validation(6, 6, 501)
    assert beyond.kinds == [*whole.kinds, ""] and torch.equal(beyond.references[:500], whole.references)
    assert beyond.references[500].isnan()
    assert torch.equal(beyond.instances.times[:500], whole.instances.times)
    hard = JobShopSets().validation(20, 20, 101)
    assert hard.kinds == [*["CP-SAT 9.15, 30 s"] * 100, ""] and hard.references[100].isnan()
    bound = trivial_bound(*hard.originals[:2]).double()[:100]
    assert (bound <= hard.references[:100]).all() and (hard.references[:100] < 1.7 * bound).all()
    other = JobShopSets().validation(4, 3, 2)
    assert not any(other.kinds) and other.instances.times.shape == (2, 4, 3)
    assert torch.equal(other.originals.machines, JobShopSets().validation(4, 3, 9).originals.machines[:2])
    for n in (0, 10_001):
        with pytest.raises(ValueError, match=f"between 1 and 10000 can be taken, not {n}"):
            JobShopSets().validation(4, 3, n)


def test_references_of_other_draws_are_not_used(monkeypatch):
    def others(n, jobs, machines, generator):  # as another release of torch might draw
        instance = random_instances(n, jobs, machines, generator)
        return instance._replace(times=100 - instance.times)

    monkeypatch.setattr(standard_sets, "random_instances", others)
    assert JobShopSets().validation(6, 6, 2).kinds == ["", ""]


def test_the_table_is_consistent():
    with open(shop_sets.DATA / "jssp_best_known.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len({row["fingerprint"] for row in rows}) == 157
    assert all(0 < int(row["lower"]) <= int(row["upper"]) for row in rows)


@pytest.mark.parametrize(("name", "optimum"), [("ft06", 55), ("ft10", 930), ("la01", 666), ("ta01", 1231)])
def test_published_instances_are_recognised_by_content_in_either_format(tmp_path, name, optimum):
    (instance_set,) = JobShopSets().load(str(DATA / f"{name}.txt"))
    assert instance_set.references.tolist() == [optimum]
    assert instance_set.names == [name] and instance_set.kinds == ["optimal"]
    times, machines = (array[0].tolist() for array in instance_set.originals[:2])
    (renamed,) = JobShopSets().load(str(write(tmp_path / "mine.any", times, machines)))
    assert (renamed.names, renamed.references.tolist()) == (["mine"], [optimum])
    times[-1][-1] += 1
    (changed,) = JobShopSets().load(str(write(tmp_path / f"{name}.txt", times, machines)))
    assert changed.kinds == [""] and changed.references.isnan().all()


def test_the_shape_is_part_of_what_is_recognised():
    shop, best_known = taillard_instances()[0], JobShopSets().best_known
    assert best_known(shop) == (1231.0, "optimal")
    assert np.isnan(best_known(shop._replace(times=shop.times[:14], machines=shop.machines[:14]))[0])
    other = shop._replace(times=shop.times.reshape(5, 45), machines=shop.machines.reshape(5, 45))  # of the same numbers
    assert np.isnan(best_known(other)[0])
    assert best_known(shop._replace(times=shop.times.astype(np.int32))) == (1231.0, "optimal")
    for field in ("release", "machine_release", "waits"):  # the same work, another problem
        changed = getattr(shop, field).copy()
        changed.flat[0] = 1
        assert np.isnan(best_known(shop._replace(**{field: changed}))[0])


def test_true_cost_is_the_makespan_of_the_original(tmp_path):
    (instance_set,) = JobShopSets().load(str(DATA / "ft06.txt"))
    worst = instance_set.true_cost(torch.tensor([0]), one_after_the_other(instance_set))
    times, machines = (array[0].tolist() for array in instance_set.originals[:2])
    assert worst.dtype == torch.float64
    assert worst.item() == plain_makespan(times, machines, one_after_the_other(instance_set)[0].tolist()) == 152
    # Two jobs in opposite directions on two machines: 5 + 7 in sequence on machine 1 after 10.
    (tiny,) = JobShopSets().load(str(write(tmp_path / "a.txt", [[10, 5], [7, 6]], [[0, 1], [1, 0]])))
    costs = tiny.true_cost(torch.tensor([0, 0]), torch.tensor([[0, 1, 0, 1], [0, 0, 1, 1]]))
    assert costs.tolist() == [16, 28]
    with pytest.raises(ValueError, match="row 1 does not schedule each job 0..1 as often as it has operations"):
        tiny.true_cost(torch.tensor([0, 0]), torch.tensor([[0, 1, 0, 1], [0, 0, 0, 1]]))


@pytest.mark.parametrize(
    ("times", "seen"),
    [
        ([[10, 5], [7, 6]], [[99, 49.5], [69.3, 59.4]]),  # small ones grow
        ([[10, 49], [7, 6]], [[990 / 49, 99], [693 / 49, 594 / 49]]),
        ([[10, 50], [7, 6]], [[10, 50], [7, 6]]),
        ([[10, 99], [7, 6]], [[10, 99], [7, 6]]),
        ([[10, 100], [7, 6]], [[9.9, 99], [6.93, 5.94]]),
        ([[10**11, 99 * 10**9], [2, 1]], [[99, 98.01], [198e-11, 99e-11]]),
        ([[0, 0], [0, 0]], [[0, 0], [0, 0]]),
    ],
)
def test_the_network_sees_times_of_one_scale(tmp_path, times, seen):
    (instance_set,) = JobShopSets().load(str(write(tmp_path / "a.txt", times, [[0, 1], [1, 0]])))
    assert instance_set.instances.times.dtype == torch.float32
    assert torch.allclose(instance_set.instances.times, torch.tensor([seen]).float(), rtol=1e-6)
    assert instance_set.originals.times.tolist() == [times]
    total = instance_set.true_cost(torch.tensor([0]), one_after_the_other(instance_set)).item()
    assert total == sum(map(sum, times))  # exact, whatever the scale


def test_folder_gives_one_set_per_size_by_operations_then_jobs(tmp_path):
    for name in ("ft10", "la01", "ta01"):
        shutil.copy(DATA / f"{name}.txt", tmp_path)
    shutil.copy(DATA / "ft06.txt", tmp_path / "ft06")  # as in JSPLIB's folder
    (tmp_path / "README").write_text("Instances\n")
    write(tmp_path / "b.jsp", [[1] * 6] * 6, [list(range(6))] * 6)
    write(tmp_path / "a.jss", [[1] * 10] * 5, [list(range(10))] * 5)
    (tmp_path / "notes.md").write_text("not an instance")
    (tmp_path / "further.txt").mkdir()
    found = JobShopSets().load(str(tmp_path))
    assert [b.names for b in found] == [["b", "ft06"], ["a"], ["la01"], ["ft10"], ["ta01"]]
    assert [b.originals.times.shape[1:] for b in found] == [(6, 6), (5, 10), (10, 5), (10, 10), (15, 15)]
    assert found[0].kinds == ["", "optimal"]
    assert list(found[0].left_out) == ["README"]
    # The rows of true_cost are those of the instances named.
    actions = one_after_the_other(found[0], 3)
    costs = found[0].true_cost(torch.tensor([1, 0, 1]), actions)
    assert costs.tolist() == [152, 11, 152]


def test_files_of_several_instances(tmp_path):
    head, *rows = (DATA / "ft06.txt").read_text().splitlines()[-7:]
    text = "\n".join([head, *rows])
    (tmp_path / "two.txt").write_text(f" instance ft06\n +++\n 6x6\n{text}\n +++\n instance b\n +++\n1 2\n0 5 1 6\n")
    small, large = JobShopSets().load(str(tmp_path))
    assert (small.names, large.names, large.kinds) == (["b"], ["ft06"], ["optimal"])
    assert [b.names for b in JobShopSets().load(str(tmp_path / "two.txt"), 1)] == [["ft06"]]


TIMES = np.array([[[10, 50], [7, 6]], [[1, 200], [3, 4]]])
MACHINES = np.array([[[0, 1], [1, 0]], [[0, 1], [0, 1]]])


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.int16, np.uint64])
def test_npz(tmp_path, dtype):
    path = tmp_path / "mine.npz"
    np.savez(path, times=TIMES.astype(dtype), machines=MACHINES.astype(dtype), cost=[60, np.nan], reference="my solver")
    (instance_set,) = JobShopSets().load(str(path))
    assert instance_set.names == ["mine/0", "mine/1"] and instance_set.kinds == ["my solver", ""]
    assert instance_set.originals.times.dtype == instance_set.originals.machines.dtype == torch.int64
    assert torch.equal(instance_set.originals.times, torch.from_numpy(TIMES))
    assert torch.equal(instance_set.originals.machines, torch.from_numpy(MACHINES))
    assert torch.allclose(instance_set.instances.times[1], torch.tensor([[99 / 200, 99], [297 / 200, 396 / 200]]))
    assert instance_set.true_cost(torch.tensor([1]), torch.tensor([[1, 0, 1, 0]])).tolist() == [207]
    (part,) = JobShopSets().load(str(path), 1)
    assert part.names == ["mine/0"] and part.references.tolist() == [60] and len(part.instances.times) == 1


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"times": TIMES[0]}, r"must be \[n, J, O\], .*, got \[2, 2\] and \[2, 2, 2\]"),
        ({"times": TIMES[:0], "machines": MACHINES[:0]}, r"got \[0, 2, 2\]"),
        ({"times": TIMES[:, :0], "machines": MACHINES[:, :0]}, r"none of them 0, got \[2, 0, 2\]"),
        ({"times": TIMES + 0.5}, r"times must be whole numbers below 4.61\S+, got 10.5 at \[0, 0, 0\]"),
        ({"machines": MACHINES.astype(bool)}, r"machines must be whole numbers .*, got bool"),
        ({"times": TIMES * [[[1]], [[-1]]]}, r"instance 1, job 0, operation 0: times must not be negative, got -1"),
        ({"times": TIMES * 10**10}, r"instance 1: times may add up to at most 1000000000000, got 2080000000000"),
        (
            {"times": TIMES.astype(np.uint64) + np.uint64(2**63)},
            r"times must be whole numbers .*, got 9223372036854775818 at \[0, 0, 0\]",
        ),
        ({"machines": MACHINES - 3}, "instance 0, job 0, operation 0: there are 1 machines, not one for -3"),
        ({"machines": MACHINES * 10**11}, "machines must be below 1000000, got 100000000000"),
        ({"times": TIMES.astype(str)}, r"times must be whole numbers \[2, 2, 2\], got <U21"),
        (
            {"machine_release": np.array(5)},
            r"machine_release must be .*\[2, 2\] \(one for each machine\), got int64 \[\]",
        ),
        ({"machines": MACHINES - 1}, r"times\[0, 0, 0\] must not be given, machines\[0, 0, 0\] is -1: no operation"),
        ({"waits": TIMES[0]}, r"waits must be whole numbers \[2, 2, 2\], got int64 \[2, 2\]"),
        (
            {"release": np.ones((2, 3))},
            r"release must be whole numbers \[2, 2\] \(one for each job\), got float64 \[2, 3\]",
        ),
    ],
)
def test_malformed_npz_are_refused(tmp_path, changes, rule):
    arrays = {"times": TIMES, "machines": MACHINES, **changes}
    np.savez(tmp_path / "bad.npz", **arrays)
    with pytest.raises(ValueError, match=rf"bad\.npz.*{rule}"):
        JobShopSets().load(str(tmp_path / "bad.npz"))
