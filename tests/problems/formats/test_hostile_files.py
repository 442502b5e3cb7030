"""Damaged and boastful files: instances, experts and the shards of a run."""

from __future__ import annotations

import contextlib
import io
import json
import mmap
import os
import re
import resource
import signal
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from gumbeldore.evaluation.references import read_table
from gumbeldore.runtime.checkpoint import find
from gumbeldore.training.dataset import read_shard
from problems.cvrp import CVRP
from problems.fjsp import FJSP
from problems.formats.cvrplib import read_cvrplib, read_solution
from problems.formats.fjs import shop_of_lists
from problems.formats.jsplib import read_jssp
from problems.formats.tsplib import read_tour, read_tsplib
from problems.jssp import JSSP
from problems.jssp.sets import JobShopSets
from problems.tsp import TSP
from problems.tsp.instances import Instance
from tests.helpers.instance_files import CVRPLIB, JSPLIB, TSPLIB
from tests.helpers.mutations import outcomes

DRAW = np.random.RandomState(0)
ARRAYS = {
    "tsp": {"coords": DRAW.rand(3, 6, 2), "cost": np.array([2.0, np.nan, 3.0]), "reference": np.array("mine")},
    "cvrp": {
        "coords": DRAW.rand(2, 6, 2),
        "demands": np.array([[0, 1, 2, 3, 4, 5], [0, 5, 4, 3, 2, 1]]),
        "capacity": np.array([9, 8]),
    },
    "jssp": {"times": DRAW.randint(1, 99, (2, 3, 4)), "machines": DRAW.rand(2, 3, 4).argsort(axis=2)},
}
LOADERS = {"tsp": TSP(6), "cvrp": CVRP(5, [12, 20]), "jssp": JSSP([[3, 4]], [[3, 4]])}


def equal(a, b) -> bool:
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and torch.equal(a.nan_to_num(-1), b.nan_to_num(-1))
    return all(map(equal, a, b)) if isinstance(a, tuple) else callable(a) or a == b


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("name", ARRAYS)
def test_damaged_instances_are_refused_or_whole(name, save, tmp_path):
    path = tmp_path / "damaged.npz"
    save(path, **ARRAYS[name])
    load, original = LOADERS[name].load, path.read_bytes()
    (whole,) = load(str(path))

    def unchanged(data, found):
        assert equal(tuple(whole), tuple(found[0])) and len(found) == 1

    counts = outcomes(original, range(200), path, lambda path: load(str(path)), unchanged)
    assert counts["refused"] > 150 and counts["read"] > 0


TOUR = b"TYPE : TOUR\nDIMENSION : 5\nTOUR_SECTION\n3\n1 2\n5\n4\n-1\nEOF\n"
ROUTES = b"Route #1: 2 4\nRoute #2: 1\nRoute #3: 3\nCost 27.5\n"
TEXTS = {
    "tsplib": (TSPLIB, read_tsplib, lambda found: np.isfinite(found.coords).all() and len(found.coords) >= 3),
    "tour": (TOUR, read_tour, lambda tour: sorted(tour) == list(range(len(tour)))),
    "cvrplib": (CVRPLIB, read_cvrplib, lambda found: 0 <= found.demands.min() <= found.demands.max() <= found.capacity),
    "routes": (ROUTES, lambda path: read_solution(path, 4), lambda found: sorted(sum(found[0], [])) == [1, 2, 3, 4]),
    "jsplib": (JSPLIB, read_jssp, lambda found: all((0 <= shop.times).all() for shop in found)),
}


@pytest.mark.parametrize("case", TEXTS)
def test_damaged_texts_are_refused_or_hold_an_instance(case, tmp_path):
    original, read, sound = TEXTS[case]

    def check(data, found):
        assert sound(found)

    counts = outcomes(original, range(300), tmp_path / "damaged.txt", read, check)
    assert counts["refused"] > 100 and counts["read"] > 5


# ---- what is no file


@contextlib.contextmanager
def in_time(seconds=10):
    """An error for whoever waits longer."""

    def stop(*_):
        raise TimeoutError("nothing came out of it")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("name", ["pipe.tsp", "pipe.npz", "pipe"])
def test_pipes_and_devices_are_refused(name, tmp_path):
    os.mkfifo(tmp_path / name)
    with in_time(), pytest.raises(ValueError, match=f"{tmp_path / name}: this is a pipe, a device or a folder"):
        TSP(6).load(str(tmp_path / name))
    for read in (read_table, find):
        with in_time(), pytest.raises(ValueError, match=f"^{tmp_path / name}: this is a pipe, a device or a folder"):
            read(tmp_path / name)
    with pytest.raises(ValueError, match="/dev/zero: this is a pipe, a device or a folder"):
        TSP(6).load("/dev/zero")


def test_of_a_folder_files_alone_are_read(tmp_path):
    (tmp_path / "elsewhere").write_bytes(TSPLIB)
    folder = tmp_path / "folder"
    folder.mkdir()
    os.mkfifo(folder / "pipe.tsp")
    os.mkfifo(folder / "five.opt.tour")
    for name, target in (("five.tsp", "../elsewhere"), ("nothing.tsp", "../nothing"), ("zero.tsp", "/dev/zero")):
        (folder / name).symlink_to(target)
    with in_time(), little_memory():
        (found,) = TSP(6).load(str(folder))
    assert found.names == ["five"] and not found.warnings
    nothing = "this is a pipe, a device or a folder, not a file"
    expected = {"nothing.tsp": "No such file or directory", "pipe.tsp": nothing, "zero.tsp": nothing}
    assert found.left_out == expected


# ---- sizes


@contextlib.contextmanager
def little_memory(spare=2**28):
    """So many bytes more than the process has mapped now."""
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (now + spare, hard))
    try:
        # A mapping: a bytearray may come out of what other tests have freed, and the limit would seem not to hold.
        with pytest.raises(OSError, match="Cannot allocate memory"):
            mmap.mmap(-1, 4 * spare)
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def npy(array, **claims) -> bytes:
    """A `.npy` file whose header says something else."""
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array)
    header = {"descr": array.dtype.str, "fortran_order": False, "shape": array.shape, **claims}
    text = (repr(header) + "\n").encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + array.tobytes()


def archive(path, **members):
    with zipfile.ZipFile(path, "w") as file:
        for name, data in members.items():
            file.writestr(f"{name}.npy", data)
    return path


COORDS = DRAW.rand(2, 6, 2)
CLAIMS = {
    "10^12 numbers": ({"coords": npy(COORDS, shape=(10**6, 10**6, 2))}, r"claims float64 \[1000000, 1000000, 2\]"),
    "beyond int64": ({"coords": npy(COORDS, shape=(2**40, 2**40, 2))}, "but holds 192 bytes"),
    "negative": ({"coords": npy(COORDS, shape=(-2, 6, 2))}, "."),
    "a wide type": ({"coords": npy(COORDS, descr="<U999999")}, "but holds 192 bytes"),
    "objects": ({"coords": npy(COORDS, descr="|O")}, "allow_pickle=False"),
    "another array": ({"coords": npy(COORDS), "cost": npy(COORDS, shape=(10**12,))}, "cost.npy claims"),
    "not an array": ({"coords": json.dumps([1, 2]).encode()}, "."),
}


@pytest.mark.parametrize("case", CLAIMS)
def test_claimed_shapes_take_no_memory(case, tmp_path):
    members, rule = CLAIMS[case]
    path = archive(tmp_path / "boast.npz", **members)
    with little_memory(), pytest.raises(ValueError, match=f"^{re.escape(str(path))} is not a readable .npz.*{rule}"):
        TSP(6).load(str(path))
    fields = {"instance.coords": members["coords"], "actions": npy(np.zeros((2, 5))), "costs": npy(np.zeros(2))}
    path = archive(tmp_path / "shard.npz", **fields, **{k: v for k, v in members.items() if k != "coords"})
    with (
        little_memory(),
        pytest.raises(ValueError, match=f"^{re.escape(str(path))} is damaged or holds something else"),
    ):
        read_shard(path, Instance)


OPERATION = '{"machine": 0, "time": 1}'
RAGGED = {  # 20,000 jobs of 1 operation, and one of 20,000, or of 20 that 300 machines may do
    "ragged.txt": "20000 2\n" + "0 1\n" * 19_999 + "0 1 " * 20_000,
    "ragged.json": '{"machines": 1, "jobs": ['
    + f'{{"operations": [{OPERATION}]}}, ' * 19_999
    + f'{{"operations": [{", ".join([OPERATION] * 20_000)}]}}]}}',
    "ragged.fjs": "20000 300\n" + "1 1 1 1\n" * 19_999 + "20" + " 1 1 1" * 20,
}


@pytest.mark.parametrize("name", RAGGED)
def test_shops_that_are_larger_than_their_files_take_no_memory(name, tmp_path):
    """In memory every job has the room of the longest; the other files of the folder are read."""
    problem = (FJSP if name.endswith(".fjs") else JSSP)([[3, 4]], [[3, 4]])
    (tmp_path / name).write_text(RAGGED[name])
    other = tmp_path / f"small{Path(name).suffix}"
    small = {".json": f'{{"machines": 1, "jobs": [{{"operations": [{OPERATION}]}}]}}', ".txt": "1 1\n0 1 0 2\n"}
    other.write_text(small.get(other.suffix, "1 1\n1 1 1 1\n"))
    rule = r"20000 jobs x \d+ operations of the longest x \d+ fields are \d+ numbers, at most 100000000 fit"
    with little_memory(2**29), pytest.raises(ValueError, match=f"^{tmp_path / name}: {rule}$"):
        problem.load(str(tmp_path / name))
    (found,) = problem.load(str(tmp_path))
    assert found.names == ["small"] and re.fullmatch(rule, found.left_out[name])


def test_arrays_and_lists_of_shops_follow_the_same_rule():
    many = np.broadcast_to(np.int64(1), (1, 5001, 5001))
    with little_memory(), pytest.raises(ValueError, match="^x: 5001 jobs x 5001 operations of the longest x 4 fields"):
        JobShopSets().from_arrays({"times": many, "machines": many}, "x")
    with little_memory(), pytest.raises(ValueError, match="^x: 200 instances x 900001 machines are 180000200 numbers"):
        JobShopSets().from_arrays({"times": np.ones((200, 1, 2)), "machines": np.full((200, 1, 2), 900_000)}, "x")
    with (
        little_memory(),
        pytest.raises(ValueError, match="^mine: 1 jobs x 1 .* x 1000000000001 fields"),
    ):
        shop_of_lists("mine", [[[(0, 3)]]], machines=10**12)


@pytest.mark.slow
def test_small_files_do_not_grow_in_memory(tmp_path):
    """2 GiB of zeros, compressed to 2 MiB, are refused; 32 MiB are read."""
    bombs = pytest.raises(ValueError, match="bytes, a file of its size may hold")
    for gigabytes, outcome in ((2, bombs), (1 / 32, contextlib.nullcontext())):
        shape = (int(gigabytes * 2**20), 64, 2)
        header = npy(np.zeros((0, 64, 2)), shape=shape)
        with zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
            with file.open("coords.npy", "w", force_zip64=True) as member:
                member.write(header)
                for _ in range(shape[0] // 1024):
                    member.write(bytes(2**20))
        with little_memory(2**29), outcome:
            TSP(64).load(str(tmp_path / "bomb.npz"), 1)
