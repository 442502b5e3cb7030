"""Attention in one piece: the same as the formula, wherever tokens lie, and whatever a machine lacks."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from models import fused
from models.blocks import Grid, ReZeroLayer, mix
from tests.networks import attend_by, awake

if not fused.compiles():
    pytest.skip("no C++ compiler", allow_module_level=True)

SHAPES = [(7, 1), (5, 5), (3, 16), (3, 17), (2, 37), (1, 70)]  # lines, places
HEADS = [(3, 8), (2, 16), (4, 12), (1, 1), (2, 24), (1, 64)]  # number, size


def scattered(lines, size, share=0.7):
    """[lines, size]: tokens in any order, and places without one; lines without any, too."""
    there = torch.rand(lines, size) < share
    there[0, 0] = True
    token = torch.full((lines, size), -1)
    token[there] = torch.randperm(int(there.sum()))
    return token


def formula(qkv, heads, bias, token):
    """Softmax attention, token by token."""
    width = qkv.shape[1] // 3
    d, out = width // heads, [None] * len(qkv)
    for line, places in enumerate(token.tolist()):
        seen = [(place, t) for place, t in enumerate(places) if t >= 0]
        for _, t in seen:
            parts = []
            for head in range(heads):
                query, keys, values = (slice(k * width + head * d, k * width + (head + 1) * d) for k in range(3))
                scores = [qkv[t, query] @ qkv[u, keys] * d**-0.5 + bias[line, head, 0, place] for place, u in seen]
                shares = torch.stack(scores).softmax(0)
                parts.append(sum(share * qkv[u, values] for share, (_, u) in zip(shares, seen, strict=True)))
            out[t] = torch.cat(parts)
    return torch.stack(out)


@pytest.mark.parametrize(("dtype", "error"), [(torch.float32, 2e-6), (torch.bfloat16, 1.5e-2)])
@pytest.mark.parametrize(("heads", "d"), HEADS)
def test_attention_and_its_gradient_equal_the_formula(heads, d, dtype, error):
    torch.manual_seed(0)
    for lines, size in SHAPES:
        token = scattered(lines, size)
        tokens = int((token >= 0).sum())
        qkv = torch.randn(tokens, 3 * heads * d).to(dtype)
        bias, change = 2 * torch.randn(lines, heads, 1, size), torch.randn(tokens, heads * d).to(dtype)
        exact = qkv.double().requires_grad_()
        wanted = formula(exact, heads, bias.double(), token)
        (wanted_gradient,) = torch.autograd.grad(wanted, exact, change.double())
        given = qkv.clone().requires_grad_()
        found = fused.attention(given, heads, bias, token)
        (gradient,) = torch.autograd.grad(found, given, change)
        assert found.dtype == gradient.dtype == dtype
        for one, other in ((found, wanted), (gradient, wanted_gradient)):
            assert (one - other).abs().max() <= error * max(1, other.abs().max()), (lines, size)


@pytest.mark.parametrize("shape", [(1, 1, 1, 9), (4, 1, 1, 9), (1, 2, 1, 9), (2, 1, 1), (4, 2, 1, 1), (1,)])
def test_biases_expand(shape):
    torch.manual_seed(0)
    qkv, token, bias = torch.randn(36, 48), torch.arange(36).view(4, 9), torch.randn(shape)
    whole = bias.expand(4, 2, 1, 9).contiguous()
    assert torch.equal(fused.attention(qkv, 2, bias, token), fused.attention(qkv, 2, whole, token))
    assert (
        not torch.allclose(fused.attention(qkv, 2, whole, token), fused.attention(qkv, 2, None, token))
        or (whole == whole[..., :1]).all()
    )


def test_large_scores_do_not_overflow_and_what_is_not_a_number_stays_in_its_line():
    qkv = torch.randn(20, 48) * 300
    token = torch.arange(20).view(4, 5)
    hidden = torch.tensor([0.0, -1e9, 0.0, -1e9, 0.0])
    found = fused.attention(qkv, 2, hidden, token)
    wanted = formula(qkv.double(), 2, hidden.double().expand(4, 2, 1, 5), token)
    assert torch.allclose(found.double(), wanted, rtol=1e-4, atol=1e-2)
    everything = fused.attention(qkv / 300, 2, torch.full((5,), -1e9), token)  # rounds the scores away: a mean
    assert torch.allclose(everything[:5], qkv[:5, 32:].mean(dim=0).expand(5, -1) / 300, atol=1e-5)
    for wrong in (torch.nan, torch.inf):
        qkv[7, 3] = wrong
        damaged = fused.attention(qkv, 2, hidden, token)
        assert not damaged[5:10].isfinite().all()
        assert torch.equal(damaged[[*range(5), *range(10, 20)]], found[[*range(5), *range(10, 20)]])


def test_any_layout_and_any_number_of_threads_give_the_same():
    torch.manual_seed(0)
    token = scattered(40, 11)
    tokens = int((token >= 0).sum())
    strided = torch.randn(96, tokens).t()[:, 12:60]
    change = torch.randn(16, tokens).t()
    found, threads = [], torch.get_num_threads()
    try:
        for qkv, places, number in [(strided, token, 1), (strided.contiguous(), token.t().contiguous().t(), 2)]:
            torch.set_num_threads(number)
            qkv = qkv.detach().requires_grad_()
            out = fused.attention(qkv, 2, None, places)
            found.append((out, *torch.autograd.grad(out, qkv, change)))
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_layers_are_the_same_in_one_piece_and_by_torch(precision, monkeypatch):
    """Forwards and backwards, over whole rows and within the lines of a grid."""
    torch.manual_seed(0)
    layer = awake(ReZeroLayer(24, 3, 32))
    x, change = torch.randn(2, 6, 9, 24)
    place = torch.cat([row * 12 + torch.randperm(12)[:9] for row in range(6)])
    grid, slope = Grid.of(place, 18, 4), torch.randn(3, 1, 4)
    empty = torch.ones(72).index_fill(0, place, 0).view(18, 1, 1, 4) * -1e9
    for options in ({}, {"bias": torch.randn(6, 1, 1, 9)}, {"bias": empty + slope, "grid": grid}):
        found = []
        for way in ("fused", "grid"):
            attend_by(way, monkeypatch)
            with torch.autocast("cpu", torch.bfloat16, enabled=precision == torch.bfloat16):
                out = layer(x, **options)
            found.append((out, *torch.autograd.grad(out, list(layer.parameters()), change)))
        error = 1e-5 if precision == torch.float32 else 5e-2
        for one, other in zip(*found, strict=True):
            assert (one - other).abs().max() <= error * max(1, other.abs().max())


def test_it_is_used_where_it_applies(monkeypatch):
    calls = []
    inner = fused.call
    monkeypatch.setattr(fused, "call", lambda name, *rest: calls.append(name) or inner(name, *rest))
    qkv = torch.randn(2, 5, 24, requires_grad=True)
    mix(qkv, 2, None, None).sum().backward()
    assert calls == ["forth", "back"]
    with torch.no_grad():
        mix(qkv, 2, torch.randn(5, 5), None)  # a bias of its own for every query
        mix(qkv.double(), 2, None, None)
        assert calls == ["forth", "back"]
        mix(qkv, 2, torch.randn(5), None)
        mix(qkv, 2, torch.randn(1, 5), None)
    assert calls == ["forth", "back", "forth", "forth"]
    assert not fused.applies(torch.device("cuda"))
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert not fused.applies(torch.device("cpu"))


def test_operations_are_counted_as_torch_counts_its_own(monkeypatch):
    layer, x, counts = ReZeroLayer(16, 2, 32), torch.randn(3, 7, 16), []
    for way in ("fused", "grid"):
        attend_by(way, monkeypatch)
        with FlopCounterMode(display=False) as counter:
            layer(x).sum().backward()
        counts.append(counter.get_total_flops())
    assert counts[0] == counts[1] > 0


TRAINS = """
import warnings
import torch
from models import fused
from models.blocks import ReZeroLayer
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for _ in range(2):
        ReZeroLayer(16, 2, 32)(torch.randn(2, 5, 16)).sum().backward()
print(fused.compiles(), [str(warning.message) for warning in caught if "attention" in str(warning.message)])
"""


def trains(**env):
    result = subprocess.run([sys.executable, "-c", TRAINS], env={**os.environ, **env}, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_without_a_compiler_attention_works_and_says_so_once(tmp_path):
    broken, lying = tmp_path / "broken", tmp_path / "lying"
    broken.write_text("#!/bin/sh\necho fused.cpp: a note >&2\necho error: what machine is this >&2\nexit 3\n")
    lying.write_text('#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\necho nothing > "$2"\n')
    for each in (broken, lying):
        each.chmod(0o755)
    for compiler, reason in [
        ("no-such-compiler", "no C++ compiler 'no-such-compiler' to compile fused.cpp with"),
        (str(broken), f"{broken} cannot compile fused.cpp (error: what machine is this)"),
        (str(lying), "the compiled fused.cpp cannot be loaded ("),
    ]:
        said = trains(CXX=compiler, GUMBELDORE_CACHE=str(tmp_path / "cache"))
        assert said.startswith("False") and said.count("attention takes") == 1 and reason in said


def test_what_is_compiled_is_kept_and_neither_damage_nor_a_folder_that_cannot_be_is_an_obstacle(tmp_path):
    folder = tmp_path / "cache" / "kernels"
    assert trains(GUMBELDORE_CACHE=str(tmp_path / "cache")) == "True []\n"
    kept = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert len(kept) == 2 and all(path.suffix == ".so" for path in kept)  # heads of 16, for asking, and of 8
    assert trains(GUMBELDORE_CACHE=str(tmp_path / "cache")) == "True []\n"
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == kept
    damaged = min(folder.iterdir())
    damaged.write_text("not a library")
    assert trains(GUMBELDORE_CACHE=str(tmp_path / "cache")) == "True []\n"
    assert damaged.stat().st_size > 1000  # compiled again
    (tmp_path / "file").touch()
    assert trains(GUMBELDORE_CACHE=str(tmp_path / "file")) == "True []\n"
