"""The size of the parts that batches go through a network in: measured once per machine and network, and then used."""

import json
from typing import NamedTuple

import pytest
import torch
from torch import Tensor, nn

from models import parts
from models.kernels import compiler
from models.parts import SIZES, USUAL, in_parts

NUMBERS = 2**14  # of a row
CALLS_TO_MEASURE = parts.ROUNDS * len(SIZES)


class Rows(NamedTuple):
    number: Tensor


class Network(nn.Module):
    """Adds a context to a state; `per_row` says what a row takes on a clock of its own, given the rows of the part."""

    def __init__(self, per_row, width=4):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(width))
        self.per_row, self.clock, self.calls = per_row, 0.0, []

    def row_size(self, context, state):
        return 1, NUMBERS

    def whole(self, context, state):
        rows = len(state.number)
        self.calls.append(rows)
        self.clock += rows * self.per_row(rows * NUMBERS)
        return context.number + state.number


def best_at(size):
    """Times a row takes: double those of the best size in parts of any other."""
    return lambda numbers: 1.0 if SIZES.index(size) == min(range(4), key=lambda i: abs(SIZES[i] - numbers)) else 2.0


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch, tmp_path):
    monkeypatch.setenv("GUMBELDORE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(parts, "_found", {})


def through(network, monkeypatch, rows=2 * SIZES[-1] // NUMBERS):
    """The sizes of the calls made for a batch, after checking its result."""
    monkeypatch.setattr(parts.time, "perf_counter", lambda: network.clock)
    network.calls.clear()
    context, state = Rows(torch.arange(rows) * 1000), Rows(torch.arange(rows))
    with torch.no_grad():
        assert torch.equal(in_parts(network, context, state), torch.arange(rows) * 1001)
    return list(network.calls)


def another_process(monkeypatch):
    monkeypatch.setattr(parts, "_found", {})


@pytest.mark.parametrize("best", SIZES)
def test_the_fastest_size_is_used_and_found_once(best, monkeypatch):
    network = Network(best_at(best))
    count = 2 * SIZES[-1] // best
    first = through(network, monkeypatch)
    assert len(first) == CALLS_TO_MEASURE + count and first[CALLS_TO_MEASURE:] == [best // NUMBERS] * count
    assert {rows * NUMBERS for rows in first[:CALLS_TO_MEASURE]} == set(SIZES)
    assert through(network, monkeypatch) == [best // NUMBERS] * count
    another_process(monkeypatch)
    assert through(Network(lambda numbers: 1.0), monkeypatch) == [best // NUMBERS] * count


def test_without_a_clear_difference_it_is_the_usual_size(monkeypatch):
    network = Network(lambda numbers: 1.0 if numbers == USUAL else 0.95)
    assert through(network, monkeypatch)[CALLS_TO_MEASURE:] == [USUAL // NUMBERS] * 4


def test_one_slow_round_changes_nothing(monkeypatch):
    """The machine does something else during the first calls of the usual size."""
    interrupted = iter([50.0, 50.0])
    network = Network(lambda numbers: next(interrupted, 1.0) if numbers == USUAL else 1.0)
    assert through(network, monkeypatch)[CALLS_TO_MEASURE:] == [USUAL // NUMBERS] * 4


def test_it_is_measured_for_each_network_number_of_threads_format_and_machine(monkeypatch):
    def measures(width=4):
        return len(through(Network(lambda numbers: 1.0, width), monkeypatch)) > CALLS_TO_MEASURE

    assert measures() and not measures()
    assert measures(width=8) and not measures(width=8)
    before = torch.get_num_threads()
    torch.set_num_threads(before + 1)
    try:
        assert measures() and not measures()
    finally:
        torch.set_num_threads(before)
    with torch.autocast("cpu", torch.bfloat16):
        assert measures() and not measures()
    assert not measures()
    monkeypatch.setattr(compiler, "processor", lambda: "another one")
    assert measures() and not measures()


def test_small_batches_and_gradients_measure_nothing(monkeypatch):
    network = Network(best_at(SIZES[0]))
    rows = SIZES[0] // NUMBERS
    assert through(network, monkeypatch, rows) == [rows]
    many = torch.arange(10 * rows)
    in_parts(network, Rows(many), Rows(many))
    assert network.calls == [rows, 10 * rows]


def test_rows_larger_than_the_smallest_part_measure_nothing(monkeypatch):
    monkeypatch.setattr(Network, "row_size", lambda *_: (1, USUAL // 3))
    assert through(Network(best_at(SIZES[0])), monkeypatch, rows=8) == [2, 2, 2, 2]


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"[]",
        b'{"times": 3}',
        b'{"times": {"1": 0.5}}',
        b'{"times": {"x": 0.5}}',
        b"\xff",
        json.dumps({"times": dict.fromkeys(SIZES, [])}).encode(),
    ],
)
def test_damaged_figures_are_measured_again(damage, monkeypatch, tmp_path):
    network = Network(best_at(SIZES[1]))
    sizes = through(network, monkeypatch)
    (path,) = (tmp_path / "cache/parts").iterdir()
    whole = path.read_bytes()
    path.write_bytes(damage)
    another_process(monkeypatch)
    assert through(network, monkeypatch) == sizes and path.read_bytes() == whole


def test_a_cache_that_cannot_be_written_is_done_without(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("GUMBELDORE_CACHE", str(tmp_path / "file"))
    network = Network(best_at(SIZES[1]))
    assert len(through(network, monkeypatch)) == CALLS_TO_MEASURE + 8
    assert len(through(network, monkeypatch)) == 8
