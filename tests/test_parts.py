"""The size of the parts that batches go through a network in: measured once per machine and network, and then used."""

import json
from typing import NamedTuple

import pytest
import torch
from torch import Tensor, nn

from gumbeldore.precision import autocast
from models import parts
from models.bq import BQ
from models.kernels import compiler
from models.parts import SIZES, USUAL, in_parts
from problems.tsp import TSP

NUMBERS = 2**12  # of a row
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
    monkeypatch.setattr(parts, "cache_folder", lambda name: tmp_path / "cache" / name)
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


@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_the_logits_are_the_same_bits_in_parts_of_any_size(precision, monkeypatch):
    torch.manual_seed(0)
    problem, policy = TSP(20), BQ(64, 2, 4, 128, own_frame=True, successor_loss=0).eval()
    for layer in policy.layers:
        nn.init.constant_(layer.scale, 0.3)
    instances = problem.generate(301, torch.Generator().manual_seed(0))
    state = problem.reset(instances)
    calls = []
    whole = policy.whole
    monkeypatch.setattr(policy, "whole", lambda *args: calls.append(len(args[1].origin)) or whole(*args))
    with torch.no_grad(), autocast(torch.device("cpu"), precision):
        logits = whole(instances, state)
        for room in (300, 150.5, 80):
            monkeypatch.setattr(parts, "rows_at_once", lambda *_, room=room: room)
            calls.clear()
            assert torch.equal(policy(instances, state), logits)
            assert sum(calls) == 301 and len(calls) > 1 and max(calls) - min(calls) <= 2 * parts.MULTIPLE


@pytest.mark.parametrize("rows", [1, 7, 8, 9, 50, 301])
@pytest.mark.parametrize("room", [0.2, 1, 3.5, 8, 20])
def test_all_rows_go_through_once_and_as_many_at_a_time_as_fit(rows, room, monkeypatch):
    monkeypatch.setattr(parts, "rows_at_once", lambda *_: room)
    calls = through(Network(lambda numbers: 1.0), monkeypatch, rows)
    assert sum(calls) == rows and max(calls) <= max(1, room + (parts.MULTIPLE - 1 if room >= parts.MULTIPLE else 0))


def test_small_batches_and_gradients_measure_nothing(monkeypatch):
    network = Network(best_at(SIZES[0]))
    rows = SIZES[0] // NUMBERS
    assert through(network, monkeypatch, rows) == [rows]
    many = torch.arange(10 * rows)
    in_parts(network, Rows(many), Rows(many))
    assert network.calls == [rows, 10 * rows]


def test_large_rows_measure_nothing(monkeypatch):
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


def test_where_nothing_can_be_kept_it_is_the_usual_size(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setattr(parts, "cache_folder", lambda name: tmp_path / "file" / name)
    assert through(Network(best_at(SIZES[0])), monkeypatch) == [USUAL // NUMBERS] * 4


def test_of_two_processes_that_measure_at_once_both_use_the_figures_of_the_first(monkeypatch):
    first, second = Network(best_at(SIZES[0])), Network(best_at(SIZES[3]))
    measured = parts.measured

    def while_another_is_faster(*arguments):
        found = measured(*arguments)
        monkeypatch.setattr(parts, "measured", measured)
        through(first, monkeypatch)
        another_process(monkeypatch)
        monkeypatch.setattr(parts.time, "perf_counter", lambda: second.clock)
        return found

    monkeypatch.setattr(parts, "measured", while_another_is_faster)
    assert through(second, monkeypatch)[CALLS_TO_MEASURE:] == [SIZES[0] // NUMBERS] * 16
