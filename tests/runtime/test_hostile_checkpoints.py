"""Checkpoints that are damaged, of something else or made with ill will: refused in one line, nothing is executed."""

from __future__ import annotations

import hashlib
import io
import re
import zipfile
from pathlib import Path

import pytest
import torch

import evaluate
import train
from gumbeldore.runtime import checkpoint
from tests.helpers.commands import done
from tests.helpers.commands import refused as refused_line
from tests.helpers.evaluations import untrained
from tests.helpers.mutations import Trap, damaged, outcomes, repacked

CONTENT = {
    "config": {"problem": {"num_nodes": 20}, "model": {"width": 16}, "rates": [0.1, None, True]},
    "weights": {"a": torch.arange(300.0).view(20, 15), "b": torch.ones(7, dtype=torch.bfloat16), "c": torch.tensor(3)},
    "epoch": 3,
    "best_gap": -1.5,
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "policy.pt"


def sealed(body: bytes) -> bytes:
    """With a checksum that is right: whoever forges the content can compute it, too."""
    return body + checkpoint.MARK + hashlib.sha256(body).digest()


def unsealed(path) -> bytes:
    return path.read_bytes()[: -checkpoint.TAIL]


def saved(content) -> bytes:
    torch.save(content, buffer := io.BytesIO())
    return buffer.getvalue()


def refused(path, rule):
    return pytest.raises(ValueError, match=f"^{re.escape(str(path))} .*{rule}")


def same(a, b) -> bool:
    if isinstance(a, dict):
        return isinstance(b, dict) and list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and torch.equal(a, b)
    return type(a) is type(b) and a == b


def test_what_was_saved_is_read(path):
    checkpoint.save(path, CONTENT)
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    assert same(checkpoint.load(path), {"format": checkpoint.FORMAT, **CONTENT})
    assert same(torch.load(path, weights_only=True)["weights"], CONTENT["weights"])  # by torch alone, too


def test_damaged_checkpoints_are_refused_or_whole(path):
    """1,000 of them; behind a checksum that somebody has made fit, 500 more are refused or read with sound tensors."""

    def unchanged(data, content):
        assert same(content, {"format": checkpoint.FORMAT, **CONTENT})

    checkpoint.save(path, CONTENT)
    original, body = path.read_bytes(), unsealed(path)
    counts = outcomes(original, range(1000), path, checkpoint.load, unchanged)
    assert sum(counts.values()) == 1000 and counts["refused"] > 900
    for seed in range(500):
        path.write_bytes(sealed(damaged(body, seed)))
        try:
            content = checkpoint.load(path)
        except ValueError as error:
            assert str(path) in str(error) and "\n" not in str(error)
        else:
            assert all(tensor.isfinite().all() for tensor in content["weights"].values())


@pytest.mark.parametrize(
    "content", [{}, {"format": None}, {"format": True}, {"format": "pt"}, {"format": [3] * 10**5}, [1, 2], CONTENT]
)
def test_what_another_program_has_saved_is_named_so(path, content):
    path.write_bytes(saved(content))
    with refused(path, "is not a checkpoint of gumbeldore, but a file of another program$"):
        checkpoint.load(path)


@pytest.mark.parametrize("number", [1, 2, checkpoint.FORMAT + 1, 10**300])
def test_other_formats_are_named(path, number):
    for data in (saved({"format": number, **CONTENT}), sealed(saved({"format": number, **CONTENT}))):
        path.write_bytes(data)
        with refused(path, f"has checkpoint format .*, this version reads format {checkpoint.FORMAT}$") as caught:
            checkpoint.load(path)
        assert len(str(caught.value)) < len(str(path)) + 100


@pytest.mark.parametrize("place", ["the file", "weights", "config"])
def test_nothing_in_a_checkpoint_is_executed(path, place):
    trap, content = Trap(path.parent / "trapped"), {"format": checkpoint.FORMAT, **CONTENT}
    body = saved(trap if place == "the file" else {**content, place: trap})
    for data in (body, sealed(body)):
        path.write_bytes(data)
        with refused(path, "is not a readable checkpoint: it holds more than tensors and plain values"):
            checkpoint.load(path)
    assert not (path.parent / "trapped").exists()
    torch.load(path, weights_only=False)
    assert (path.parent / "trapped").exists()  # the trap works


TENSOR = torch.ones(2, 3)
GONE = object()
UNUSABLE = {
    "config gone": ({"config": GONE}, "there is no 'config'"),
    "weights gone": ({"weights": GONE}, "there is no 'weights'"),
    "no weights": ({"weights": None}, "its weights must be a dictionary, got NoneType"),
    "nan": ({"weights": {"a": TENSOR, "b": TENSOR * torch.nan}}, "weights.b holds NaN or infinity"),
    "infinity": ({"train_state": {"x": [{"y": TENSOR / 0}]}}, "train_state.x.0.y holds NaN or infinity"),
    "a tensor of 10^12": ({"weights": {"a": torch.ones(1).expand(10**6, 10**6)}}, "weights.a claims more numbers than"),
}


@pytest.mark.parametrize("case", UNUSABLE)
def test_unusable_content_is_refused(path, case):
    change, rule = UNUSABLE[case]
    content = {**CONTENT, **change}
    checkpoint.save(path, {key: value for key, value in content.items() if value is not GONE})
    with refused(path, f"is not a usable checkpoint: {rule}"):
        checkpoint.load(path)


def test_claimed_sizes_take_no_memory(path):
    """A compressed record of zeros, a billion numbers in a record of 1,200 bytes, a record that is missing."""
    checkpoint.save(path, CONTENT)
    body = unsealed(path)
    bomb = repacked(body, lambda n, x: {n: bytes(2**26) if n.endswith("data/0") else x}, zipfile.ZIP_DEFLATED)
    assert len(bomb) < 2**18
    huge = repacked(body, lambda n, x: {n: x.replace(b"M\x2c\x01", b"J" + (10**9).to_bytes(4, "little"))})
    gone = repacked(body, lambda n, x: {} if n.endswith("data/0") else {n: x})
    for data, rule in ((bomb, "claims to be larger than its file"), (huge, "."), (gone, ".")):
        path.write_bytes(sealed(data))
        with refused(path, rule):
            checkpoint.load(path)


# ---- the commands


def forged(source: Path, target: Path, change) -> Path:
    content = checkpoint.load(source)
    change(content)
    checkpoint.save(target, content)
    return target


def key(*path, value):
    def change(content):
        for name in path[:-1]:
            content = content[name]
        if value is None:
            del content[path[-1]]
        else:
            content[path[-1]] = value

    return change


FORGED = {  # what is changed in the checkpoint of a TSP policy
    "of another problem": (key("config", "problem", value={"_target_": "problems.jssp.JSSP"}), "problem: "),
    "of another network": (key("config", "model", "width", value=32), "size mismatch"),
    "of a network beyond all memory": (key("config", "model", "width", value=10**12), "weights are far too few for a"),
    "a program": (key("config", "model", "_target_", value="os.system"), "model._target_=os.system is not a class"),
    "a program in it": (key("config", "model", "heads", value={"_target_": "os.system"}), "must hold plain values"),
    "a weight missing": (key("weights", "embed.weight", value=None), "Missing key"),
}


@pytest.mark.slow
def test_the_evaluation_refuses_them_in_one_line(tmp_path):
    source = untrained(tmp_path) / "tsp.pt"
    for name, (change, rule) in FORGED.items():
        path = forged(source, tmp_path / "forged.pt", change)
        line = refused_line(evaluate, f"checkpoint={path}", "instances=kool/tsp20", "out_dir=out", cwd=tmp_path)
        assert str(path) in line and rule in line, (name, line)


@pytest.mark.slow
def test_a_damaged_run_is_not_continued(tmp_path):
    words = ["debug=fast", "problem.num_nodes=6", "model.layers=1", "model.width=16", "run_dir=run", "train.epochs=2"]
    slow = ["train.learning_rate=1e-9", "train.muon_learning_rate=1e-9"]
    done(train, *words, *slow, cwd=tmp_path)  # the second epoch is no better: its experts stay
    last, dataset = tmp_path / "run/checkpoints/last.pt", tmp_path / "run/dataset"
    whole, (shard,) = last.read_bytes(), dataset.iterdir()

    def message():
        return refused_line(train, "resume=run", cwd=tmp_path)

    last.write_bytes(whole[:-1000])
    assert "error: run/checkpoints/last.pt is not a readable checkpoint" in message()
    last.write_bytes(whole)
    forged(last, last, key("train_state", "policy", "embed.weight", value=torch.ones(3, 3)))
    assert "error: run/checkpoints/last.pt does not fit: " in message()
    forged(last, last, key("train_state", value=None))
    assert "there is no 'train_state'" in message()
    last.write_bytes(whole)
    data = shard.read_bytes()
    for bad in (data[: len(data) // 2], data.replace(b"NUMPY", b"NUMPU"), b""):
        shard.write_bytes(bad)
        assert f"run/dataset/{shard.name} is damaged" in message()
    shard.unlink()
    assert f"there is no file run/dataset/{shard.name}" in message()
