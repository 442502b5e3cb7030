"""Gomoku: the rules, the opponent, games of different lengths, and a policy that learns to win."""

from __future__ import annotations

import itertools
import json

import pytest
import torch

import evaluate
import train
from gumbeldore.instance_set import TooFewError
from gumbeldore.sampler import methods
from gumbeldore.sampler.search import search
from gumbeldore.testing import policy_contract, problem_contract
from gumbeldore.training.dataset import PseudoExperts, Shard
from models.gomoku import GomokuNet
from problems.gomoku import Gomoku, Instance, State
from problems.gomoku.opponent import Stones, rows_of
from tests.helpers.commands import done
from tests.helpers.networks import awake
from tests.helpers.tensors import same_tensors

SIZE = 9


def reply(board, in_a_row):
    rows = rows_of(round(board.shape[1] ** 0.5), in_a_row, torch.device("cpu"))
    return Stones.of(board, rows).reply(board, rows, in_a_row)


def board_of(text: str) -> torch.Tensor:
    """A board [1, C] from lines of o (ours), x (the opponent's) and anything else."""
    lines = [line.split() for line in text.strip().splitlines()]
    return torch.tensor([[{"o": 1, "x": -1}.get(cell, 0) for line in lines for cell in line]], dtype=torch.int8)


def line(text: str, size: int = SIZE) -> torch.Tensor:
    """A board whose second line is this, all others are empty."""
    return board_of("\n".join([" ".join("." * size), text, *[" ".join("." * size)] * (size - 2)]))


@pytest.mark.parametrize(("size", "in_a_row"), [(9, 5), (6, 4), (3, 3), (5, 3)])
def test_contracts(size, in_a_row):
    problem = Gomoku(size, in_a_row)
    problem_contract(problem)
    policy_contract(awake(GomokuNet(8, 2)), problem)


def slow_reply(board, size, in_a_row):
    """The rules in words, cell by cell."""
    lines = []
    for y, x, (down, right) in itertools.product(range(size), range(size), ((0, 1), (1, 0), (1, 1), (1, -1))):
        cells = [(y + i * down, x + i * right) for i in range(in_a_row)]
        if all(0 <= a < size and 0 <= b < size for a, b in cells):
            lines.append([a * size + b for a, b in cells])
    worth = [0] * size**2
    for cells in lines:
        theirs, ours = sum(board[c] == -1 for c in cells), sum(board[c] == 1 for c in cells)
        value = ours == 0
        value += 10**4 * (ours == in_a_row - 1 and theirs == 0)
        value += 10**8 * (theirs == in_a_row - 1 and ours == 0)
        for cell in cells:
            worth[cell] += value
    return max((cell for cell in range(size**2) if board[cell] == 0), key=lambda cell: (worth[cell], -cell))


@pytest.mark.parametrize(("size", "in_a_row"), [(9, 5), (6, 4), (3, 3)])
def test_the_opponent_beside_its_rules_in_words(size, in_a_row):
    draws = torch.Generator().manual_seed(0)
    boards = torch.randint(-1, 2, (60, size**2), generator=draws).to(torch.int8)
    boards[torch.arange(60), torch.randint(size**2, (60,), generator=draws)] = 0
    found = reply(boards, in_a_row)
    assert found.tolist() == [slow_reply(board, size, in_a_row) for board in boards.tolist()]


@pytest.mark.parametrize(
    ("text", "cell", "outcome"),
    [
        ("o o o o . x x x .", 13, 1),
        ("o o . o . x x x .", 13, 0),
        (". x x x x . o . .", 80, -1),  # it completes its row
        ("o x x x x o . . .", 80, 0),  # which is stopped
    ],
)
def test_a_game_ends_with_a_row_and_stays_as_it_is(text, cell, outcome):
    problem, instance = Gomoku(SIZE, 5), Instance(torch.tensor([0]))
    before = State(line(text), torch.zeros(1, dtype=torch.int8))
    after = problem.step(instance, before, torch.tensor([cell]))
    assert after.outcome.item() == outcome and after.over.item() == (outcome != 0)
    assert (after.board == -1).sum() - (before.board == -1).sum() == (outcome != 1)  # there is no reply to a row
    if outcome:
        assert problem.mask(instance, after).nonzero().tolist() == [[0, 0]]
        assert same_tensors(problem.step(instance, after, torch.tensor([0])), after)


def test_a_full_board_is_a_draw():
    problem = Gomoku(3, 3)
    board = board_of("x o x\nx o o\no x .")
    state = State(board, torch.zeros(1, dtype=torch.int8))
    after = problem.step(Instance(torch.tensor([0])), state, torch.tensor([8]))
    assert after.over.item() and after.outcome.item() == 0


def test_moves_are_numbered_in_their_order():
    problem = Gomoku(SIZE, 5)
    instance = Instance(torch.tensor([40, 0]))
    moves = torch.empty(2, 40, dtype=torch.int64)
    state = problem.reset(instance)
    for turn in range(40):
        moves[:, turn] = problem.mask(instance, state).int().argmax(dim=1)
        state = problem.step(instance, state, moves[:, turn])
    numbers = problem.board.numbered(instance, moves)
    assert numbers[0, 40] == numbers[1, 0] == 1 and numbers[0, moves[0, 0]] == 2
    assert torch.equal(numbers > 0, state.board != 0) and torch.equal(numbers % 2 == 1, state.board == -1)
    for row in numbers.tolist():
        used = sorted(number for number in row if number)
        assert used == list(range(1, len(used) + 1))
    for index, row in enumerate(numbers):
        ours = (row > 0) & (row % 2 == 0)
        shown = problem.reports.named_solution(instance, index, moves[index])["moves"]
        assert sorted(shown) == ours.nonzero().flatten().tolist() and len(shown) < 40
    figure = problem.reports.render(instance, moves, ["one", "two"])
    assert len(figure.axes) == 2


def test_all_starts_are_drawn_alike():
    problem = Gomoku(4, 3)
    once = problem.generate(16, torch.Generator().manual_seed(0)).start
    assert sorted(once.tolist()) == list(range(16)) and once.tolist() != list(range(16))
    counts = torch.bincount(problem.generate(40, torch.Generator().manual_seed(0)).start, minlength=16)
    assert set(counts.tolist()) == {2, 3}
    (starts,) = problem.load("starts")
    assert starts.instances.start.tolist() == list(range(16)) and starts.names[3] == "starts/3"
    for wrong in (lambda: problem.load("others"), lambda: problem.load("starts", 17), lambda: Gomoku(4, 5)):
        with pytest.raises(ValueError, match="there is starts|can be taken|between 3 and size"):
            wrong()
    with pytest.raises(TooFewError, match="starts has 16 instances, between 1 and 16 can be taken, not 100"):
        problem.load("starts", 100)  # as a study does by default, which then takes all


def test_training_learns_the_moves_before_the_end_of_each_game_equally_often():
    problem, draws = Gomoku(5, 4), torch.Generator().manual_seed(0)
    instances = problem.generate(50, draws)
    games = search(problem, GomokuNet(8, 1), instances, methods.Sampling(1, 1), draws).best()
    lengths = problem.num_choices(instances, games[0])
    assert lengths.unique().numel() > 3
    dataset = PseudoExperts()
    dataset.add(Shard("games", instances, *games))
    steps, size = torch.zeros(problem.horizon(instances)), 50
    for _ in range(2000):
        example = dataset.batch(problem, size, draws)
        assert (problem.mask(example.instance, example.state).sum(dim=1) > 1).all()
        steps[problem.horizon(instances) - example.remaining_actions.shape[1]] += 1
    expected = (lengths[:, None] > torch.arange(len(steps))).double().mean(dim=0)
    torch.testing.assert_close(steps / steps.sum(), (expected / expected.sum()).float(), atol=0.03, rtol=0)


def test_games_of_different_lengths_are_searched_without_repetition():
    problem, policy = Gomoku(3, 3), GomokuNet(8, 1)
    instances = problem.generate(9, torch.Generator().manual_seed(0))
    found = search(problem, policy, instances, methods.WithoutReplacement(300, 1), torch.Generator().manual_seed(0))
    for actions, valid, costs in zip(found.actions, found.valid, found.costs, strict=True):
        games = actions[valid].tolist()
        assert len(games) < 300 and len(set(map(tuple, games))) == len(games)  # all of them, each once
        assert set(costs[valid].tolist()) <= {-1.0, 0.0, 1.0}
    total = found.log_probs.exp().masked_fill(~found.valid, 0.0).sum(dim=1)
    torch.testing.assert_close(total, torch.ones_like(total))


WORDS = ["problem=gomoku", "problem.size=5", "problem.in_a_row=4", "search.num_rounds=4", "train.learning_rate=5e-3"]
WORDS += ["train.epochs=5", "train.instances_per_epoch=25", "train.validation_instances=25", "train.batch_size=128"]
WORDS += ["train.batches_per_epoch=150", "images_every=5", "workers=0", "run_dir=run"]


def test_games_do_not_depend_on_torchs_default_number_format():
    def found(policy):
        rows_of.cache_clear()
        return search(problem, policy, instances, methods.WithoutReplacement(4, 1), keys=torch.arange(8)).actions

    torch.manual_seed(0)
    problem, policy = Gomoku(5, 4), awake(GomokuNet(8, 2))
    instances = problem.generate(8, torch.Generator().manual_seed(0))
    expected = found(policy)
    torch.set_default_dtype(torch.float64)
    try:
        assert torch.equal(found(policy), expected)
        assert found(GomokuNet(8, 2)).shape == expected.shape
    finally:
        torch.set_default_dtype(torch.float32)
        rows_of.cache_clear()


@pytest.mark.slow
def test_a_policy_learns_to_win(tmp_path):
    done(train, *WORDS, cwd=tmp_path)
    costs = [json.loads(text)["quality/best_greedy_cost"] for text in (tmp_path / "run/metrics.jsonl").open()]
    assert costs[0] > 0.5 and costs[-1] < 0  # mostly lost, then mostly won
    result = done(evaluate, "checkpoint=run", "instances=starts", "workers=0", "out_dir=out", cwd=tmp_path)
    assert "starts: 25 instances" in result.stdout
