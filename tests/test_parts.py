"""The size of the parts that batches go through a network in: measured once per machine and network, and then used."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple
from weakref import WeakKeyDictionary

import pytest
import torch
from torch import Tensor, nn

from gumbeldore.precision import autocast
from models import parts
from models.kernels import compiler
from models.parts import SIZES, USUAL, RowSize, in_parts

CPU = torch.device("cpu")
ROOT = Path(__file__).parent.parent
NUMBERS = 2**14  # of a row
MEASURING = parts.ROUNDS * len(SIZES)  # calls


class Rows(NamedTuple):
    number: Tensor


class Network(nn.Module):
    """Adds a context to a state; `per_row` says what a row takes on a clock of its own, given the rows of the part."""

    def __init__(self, per_row, width=4, heads=2):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(width))
        self.heads, self.per_row, self.clock, self.calls = heads, per_row, 0.0, []

    def row_size(self, context, state):
        return RowSize(1, NUMBERS)

    def whole(self, context, state):
        rows = len(state.number)
        self.calls.append(rows)
        self.clock += rows * self.per_row(rows * NUMBERS)
        return context.number + state.number


def best_at(size):
    """Times a row takes: in parts of other sizes double those of the best."""
    return lambda numbers: 1.0 if numbers == size else 2.0


def always_the_same(numbers):
    return 1.0


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch, tmp_path):
    monkeypatch.setattr(parts, "cache_folder", lambda name: tmp_path / "cache" / name)
    monkeypatch.setattr(parts, "_found", WeakKeyDictionary())


def through(network, monkeypatch, numbers=2 * SIZES[-1], precision="bf16"):
    """The numbers in the calls made for a batch of so many, after checking its result."""
    monkeypatch.setattr(parts, "time", SimpleNamespace(perf_counter=lambda: network.clock))
    network.calls.clear()
    rows = numbers // NUMBERS
    context, state = Rows(torch.arange(rows) * 1000), Rows(torch.arange(rows))
    with torch.no_grad(), autocast(CPU, precision):
        assert torch.equal(in_parts(network, context, state), torch.arange(rows) * 1001)
    return [rows * NUMBERS for rows in network.calls]


def another_process(monkeypatch):
    monkeypatch.setattr(parts, "_found", WeakKeyDictionary())


# ---- what is measured, and used


@pytest.mark.parametrize("best", SIZES)
def test_the_fastest_size_is_used_and_found_once(best, monkeypatch):
    network = Network(best_at(best))
    whole = [best] * (2 * SIZES[-1] // best)
    first = through(network, monkeypatch)
    assert set(first[:MEASURING]) == set(SIZES) and first[MEASURING:] == whole
    assert through(network, monkeypatch) == whole
    another_process(monkeypatch)
    assert through(Network(always_the_same), monkeypatch) == whole


def test_without_a_clear_difference_it_is_the_usual_size(monkeypatch):
    network = Network(lambda numbers: 1.0 if numbers == USUAL else 0.95)
    assert through(network, monkeypatch)[MEASURING:] == [USUAL] * 4


def test_a_machine_that_is_busy_for_two_rounds_changes_nothing(monkeypatch):
    interrupted = iter([50.0, 50.0])
    network = Network(lambda numbers: next(interrupted, 1.0) if numbers == USUAL else 1.0)
    assert through(network, monkeypatch)[MEASURING:] == [USUAL] * 4


def test_it_is_measured_for_each_network_number_of_threads_and_machine(monkeypatch):
    def measures(**shape):
        return len(through(Network(always_the_same, **shape), monkeypatch)) > MEASURING

    monkeypatch.setattr(compiler, "applies", lambda device: True)
    assert measures() and not measures()
    assert measures(width=8) and not measures(width=8)
    assert measures(heads=1) and not measures(heads=1)
    before = torch.get_num_threads()
    torch.set_num_threads(before + 1)
    try:
        assert measures() and not measures()
    finally:
        torch.set_num_threads(before)
    assert len(through(Network(always_the_same), monkeypatch, precision="float32")) > MEASURING
    assert len(through(Network(always_the_same), monkeypatch, precision="float32")) < MEASURING
    monkeypatch.setattr(compiler, "applies", lambda device: False)
    assert measures() and not measures()
    monkeypatch.setattr(compiler, "processor", lambda: "another one")
    assert measures() and not measures()


def test_with_gradients_batches_are_whole():
    network = Network(always_the_same)
    many = torch.arange(10 * USUAL // NUMBERS)
    with autocast(CPU, "bf16"):
        in_parts(network, Rows(many), Rows(many))
    assert network.calls == [len(many)]


def test_rows_too_large_for_the_smallest_parts_measure_nothing(monkeypatch):
    monkeypatch.setattr(Network, "row_size", lambda *_: RowSize(1, USUAL // 3))
    assert through(Network(best_at(SIZES[0])), monkeypatch, numbers=8 * NUMBERS) == [2 * NUMBERS] * 4


@pytest.mark.parametrize("rows", [0, 1, 7, 50, 301])
@pytest.mark.parametrize("room", [0.2, 1, 3.5, 20])
def test_all_rows_go_through_once_and_as_many_at_a_time_as_fit(rows, room, monkeypatch):
    monkeypatch.setattr(parts, "rows_at_once", lambda *_: room)
    calls = through(Network(always_the_same), monkeypatch, rows * NUMBERS)
    assert sum(calls) == rows * NUMBERS and max(calls) <= max(1, room) * NUMBERS


# ---- the figures that are kept

DAMAGES = [b"", b"[]", b'{"times": 3}', b'{"times": {"1": 0.5}}', b'{"times": {"x": 0.5}}', b"\xff"]


@pytest.mark.parametrize("damage", [*DAMAGES, json.dumps({"times": dict.fromkeys(SIZES, [])}).encode()])
def test_damaged_figures_are_measured_again(damage, monkeypatch, tmp_path):
    network = Network(best_at(SIZES[1]))
    calls = through(network, monkeypatch)
    (path,) = (tmp_path / "cache/parts").glob("*.json")
    whole = path.read_bytes()
    path.write_bytes(damage)
    another_process(monkeypatch)
    assert through(network, monkeypatch) == calls and path.read_bytes() == whole


@pytest.mark.parametrize("way", ["a file", "no home", "full"])
def test_where_nothing_can_be_kept_it_is_the_usual_size(way, monkeypatch, tmp_path):
    def homeless(name):
        raise RuntimeError("Could not determine home directory.")

    def full(path):
        raise OSError(28, "No space left on device")

    if way == "no home":
        monkeypatch.setattr(parts, "cache_folder", homeless)
    elif way == "full":
        monkeypatch.setattr(parts, "replacing", full)
    else:
        (tmp_path / "cache").touch()
    network = Network(best_at(SIZES[0]))
    for _ in range(2):
        assert through(network, monkeypatch)[-4:] == [USUAL] * 4
        another_process(monkeypatch)
    if way != "full":
        assert len(network.calls) == 4  # and nothing was measured


MEASURES = """
import sys, time
from pathlib import Path
import torch
from models import parts
from tests.test_parts import Network, Rows, SIZES, best_at

folder, size = Path(sys.argv[1]), SIZES[int(sys.argv[2])]
parts.cache_folder = lambda name: folder
network = Network(best_at(size))

def clock():
    time.sleep(0.01)  # for the other process to come meanwhile
    return network.clock

parts.time = type("time", (), {"perf_counter": clock})
many = Rows(torch.arange(2 * SIZES[-1] // 2**14))
with torch.no_grad():
    print("ready", flush=True)
    sys.stdin.readline()
    print(parts.numbers_at_once(network, many, many), bool(network.calls))
"""


def test_processes_that_ask_at_once_wait_for_the_first_and_use_its_figures(tmp_path):
    command = [sys.executable, "-c", MEASURES, str(tmp_path)]
    processes = [
        subprocess.Popen([*command, str(best)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for best in (0, 1, 3)
    ]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    said = [process.communicate()[0].split() for process in processes]
    assert len({size for size, _ in said}) == 1 and [asked for _, asked in said].count("True") == 1
