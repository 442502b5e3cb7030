"""What runs in C++: the same as the formulas, wherever tokens lie, and whatever a machine lacks."""

from __future__ import annotations

import math
import os
import subprocess
import sys

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from models.attention import Grid, mix
from models.blocks import ReZeroLayer
from models.kernels import attention as fused
from models.kernels import compiler, pointwise
from models.products import Product, Residual, gelu, product
from tests.networks import PRODUCTS, attend_by, awake, multiply_by

if not compiler.compiles():
    pytest.skip("no C++ compiler", allow_module_level=True)

# Lines and places: one line at a time, then sixteen side by side.
SHAPES = [(7, 1), (5, 5), (3, 16), (3, 17), (2, 37), (1, 70), (3, 45), (2, 65), (2, 32), (1, 64)]
SHAPES += [(16, 1), (16, 2), (33, 3), (40, 5), (20, 10), (18, 20)]
HEADS = [(3, 8), (2, 16), (4, 12), (1, 1), (2, 24), (1, 64), (2, 33)]  # number, size


def scattered(lines, size, share=0.7):
    """[lines, size]: tokens in any order, and places without one; lines without any, too."""
    there = torch.rand(lines, size) < share
    there[0, 0] = True
    token = torch.full((lines, size), -1)
    token[there] = torch.randperm(int(there.sum()))
    return token


def formula(qkv, qkv_bias, heads, bias, token):
    """Softmax attention, token by token."""
    qkv = qkv if qkv_bias is None else qkv + qkv_bias
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


@pytest.mark.parametrize("products", ["float32", "numbers", *PRODUCTS])
@pytest.mark.parametrize(("heads", "d"), HEADS)
def test_attention_and_its_gradient_equal_the_formula(heads, d, products, monkeypatch):
    dtype, error = (torch.float32, 2e-6) if products == "float32" else (torch.bfloat16, 1.5e-2)
    multiply_by(products, monkeypatch)
    torch.manual_seed(0)
    for lines, size in SHAPES:
        token = scattered(lines, size)
        tokens = int((token >= 0).sum())
        qkv = torch.randn(tokens, 3 * heads * d).to(dtype)
        bias, change = 2 * torch.randn(lines, heads, 1, size), torch.randn(tokens, heads * d).to(dtype)
        qkv_bias = torch.randn(3 * heads * d)
        exact = [each.double().requires_grad_() for each in (qkv, qkv_bias)]
        wanted = formula(*exact, heads, bias.double(), token)
        wanted = [wanted, *torch.autograd.grad(wanted, exact, change.double())]
        given = [each.clone().requires_grad_() for each in (qkv, qkv_bias)]
        found = fused.attention(*given, heads, bias, token)
        found = [found, *torch.autograd.grad(found, given, change)]
        assert [each.dtype for each in found] == [dtype, dtype, torch.float32]
        for one, other in zip(found, wanted, strict=True):
            assert (one - other).abs().max() <= error * max(1, other.abs().max()), (lines, size)


@pytest.mark.parametrize("shape", [(1, 1, 1, 9), (4, 1, 1, 9), (1, 2, 1, 9), (2, 1, 1), (4, 2, 1, 1), (1,)])
def test_biases_expand(shape):
    torch.manual_seed(0)
    qkv, token, bias = torch.randn(36, 48), torch.arange(36).view(4, 9), torch.randn(shape)
    whole = bias.expand(4, 2, 1, 9).contiguous()
    assert torch.equal(fused.attention(qkv, None, 2, bias, token), fused.attention(qkv, None, 2, whole, token))
    assert (
        not torch.allclose(fused.attention(qkv, None, 2, whole, token), fused.attention(qkv, None, 2, None, token))
        or (whole == whole[..., :1]).all()
    )


def test_large_scores_do_not_overflow_and_what_is_not_a_number_stays_in_its_line():
    qkv = torch.randn(20, 48) * 300
    token = torch.arange(20).view(4, 5)
    hidden = torch.tensor([0.0, -1e9, 0.0, -1e9, 0.0])
    found = fused.attention(qkv, None, 2, hidden, token)
    wanted = formula(qkv.double(), None, 2, hidden.double().expand(4, 2, 1, 5), token)
    assert torch.allclose(found.double(), wanted, rtol=1e-4, atol=1e-2)
    everything = fused.attention(qkv / 300, None, 2, torch.full((5,), -1e9), token)  # rounds the scores away: a mean
    assert torch.allclose(everything[:5], qkv[:5, 32:].mean(dim=0).expand(5, -1) / 300, atol=1e-5)
    for wrong in (torch.nan, torch.inf):
        qkv[7, 3] = wrong
        damaged = fused.attention(qkv, None, 2, hidden, token)
        assert not damaged[5:10].isfinite().all()
        assert torch.equal(damaged[[*range(5), *range(10, 20)]], found[[*range(5), *range(10, 20)]])


@pytest.mark.parametrize("products", ["float32", "numbers", *PRODUCTS])
def test_no_bias_is_a_bias_of_zero_whatever_size_of_heads_was_used_before(products, monkeypatch):
    dtype = torch.float32 if products == "float32" else torch.bfloat16
    multiply_by(products, monkeypatch)
    torch.manual_seed(0)
    for d in (8, 16, 64, 12, 1, 24, 16, 8):
        for heads in (1, 4, 7):
            for lines, size in ((2, 45), (3, 20), (17, 5)):
                qkv, token = torch.randn(lines * size, 3 * heads * d).to(dtype), torch.arange(lines * size)
                given = qkv, None, heads, None, token.view(lines, size)
                zero = qkv, torch.zeros(3 * heads * d), heads, None, token.view(lines, size)
                assert torch.equal(fused.attention(*given), fused.attention(*zero)), (d, heads, lines, size)


@pytest.mark.parametrize("products", ["numbers", *PRODUCTS])
@pytest.mark.parametrize("d", [12, 16])
def test_what_is_not_a_number_stays_in_its_line_though_others_use_its_memory(d, products, monkeypatch):
    multiply_by(products, monkeypatch)
    torch.manual_seed(0)
    token, threads = torch.arange(90).view(2, 45), torch.get_num_threads()
    token[1, 21:] = -1  # shorter than the line before, and half a pair more than whole ones
    qkv, change, found = torch.randn(66, 6 * d).bfloat16(), torch.randn(66, 2 * d).bfloat16(), []
    for wrong in (0.0, torch.nan):
        given = qkv.clone()
        given[:45] += wrong
        given.requires_grad_()
        try:
            torch.set_num_threads(1)
            out = fused.attention(given, None, 2, None, token)
            found.append([each[45:] for each in (out, *torch.autograd.grad(out, given, change))])
        finally:
            torch.set_num_threads(threads)
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


@pytest.mark.parametrize("products", ["numbers", *PRODUCTS])
@pytest.mark.parametrize("size", [7, 45])
def test_lines_with_hidden_keys_only_have_gradients(size, products, monkeypatch):
    multiply_by(products, monkeypatch)
    qkv = (20 * torch.randn(size, 48)).bfloat16().requires_grad_()
    out = fused.attention(qkv, None, 2, torch.full((size,), -1e9), torch.arange(size).view(1, size))
    (gradient,) = torch.autograd.grad(out.sum(), qkv)
    assert out.isfinite().all() and gradient.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("lines", "size"), [(2, 7), (20, 7), (2, 45)])
@pytest.mark.parametrize("hidden", [-1e9, torch.finfo(torch.float32).min, -torch.inf])
def test_hidden_keys_count_nothing(hidden, lines, size, dtype):
    token = torch.arange(lines * size).view(lines, size)
    qkv = torch.randn(lines * size, 48).to(dtype)
    bias = torch.zeros(size).index_fill(0, torch.tensor([1, 4]), hidden)
    seen = [place for place in range(size) if place not in (1, 4)]
    given = qkv.clone().requires_grad_()
    found = fused.attention(given, None, 2, bias, token)
    (gradient,) = torch.autograd.grad(found[token[:, seen].flatten()].sum(), given)
    kept = qkv[token[:, seen].flatten()]
    wanted = fused.attention(kept, None, 2, None, torch.arange(len(kept)).view(lines, -1))
    assert torch.allclose(found[token[:, seen].flatten()].float(), wanted.float(), atol=2e-2, rtol=0)
    assert gradient.isfinite().all() and (gradient[token[:, [1, 4]].flatten()].abs() < 1e-30).all()


@pytest.mark.parametrize("products", ["float32", "numbers", *PRODUCTS])
@pytest.mark.parametrize(("lines", "size"), [(1, 7), (20, 7), (1, 45)])
def test_shares_too_small_to_count_are_zero(lines, size, products, monkeypatch):
    """Not numbers below 2^-126, which take a processor a hundred times as long: a sharp policy has many of them."""
    dtype, error = (torch.float32, 1e-5) if products == "float32" else (torch.bfloat16, 1e-2)
    multiply_by(products, monkeypatch)
    token = torch.arange(lines * size).view(lines, size)
    below = torch.zeros(size)
    below[1:7] = torch.tensor([1.0, 20.0, 63.0, 65.0, 130.0, 160.0])
    qkv = torch.zeros(lines, size, 48)  # queries of 0, so that scores are the bias, and a column for each of the values
    qkv[:, :7, 32:39] = torch.eye(7)
    given = qkv.flatten(0, 1).to(dtype).requires_grad_()
    found = fused.attention(given, None, 1, -below * math.log(2), token)
    shares = 2.0 ** -below.double()
    shares = shares[:7] / shares.sum()
    assert torch.allclose(found[:, :4].double(), shares[:4].expand(len(found), -1), rtol=error, atol=0)
    assert (found[:, 4:7] == 0).all() and (shares[4] > 0)
    (gradient,) = torch.autograd.grad(found.sum(), given)
    of_values = gradient.view(lines, size, 48)[:, :7, 32:].double()
    wanted = (size * shares)[:, None].expand_as(of_values)
    assert torch.allclose(of_values[:, :4], wanted[:, :4], rtol=error, atol=0) and (of_values[:, 4:] == 0).all()


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
            out = fused.attention(qkv, None, 2, None, places)
            found.append((out, *torch.autograd.grad(out, qkv, change)))
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(one, other) for one, other in zip(*found, strict=True))


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_layers_are_the_same_in_one_piece_and_by_torch(precision, monkeypatch):
    """Forwards and backwards, over whole rows and within the lines of a grid."""
    torch.manual_seed(0)
    layer = awake(ReZeroLayer(24, 3, 32))
    place = torch.cat([row * 12 + torch.randperm(12)[:9] for row in range(6)])
    grid, slope = Grid.of(place, 18, 4), torch.randn(3, 1, 4)
    empty = torch.ones(72).index_fill(0, place, 0).view(18, 1, 1, 4) * -1e9
    on_grid = {"bias": empty + slope, "grid": grid}
    for tokens, options in ((9, {}), (9, {"bias": torch.randn(6, 1, 1, 9)}), (9, on_grid), (50, {})):
        x, change = torch.randn(2, 6, tokens, 24)
        found = []
        for way in ("fused", "grid"):
            attend_by(way, monkeypatch)
            with torch.autocast("cpu", torch.bfloat16, enabled=precision == torch.bfloat16):
                out = layer(Residual.of(x), **options).total
            found.append((out, *torch.autograd.grad(out, list(layer.parameters()), change)))
        error = 1e-5 if precision == torch.float32 else 5e-2
        for one, other in zip(*found, strict=True):
            assert (one - other).abs().max() <= error * max(1, other.abs().max())


@pytest.mark.parametrize("products", PRODUCTS)
def test_only_long_lines_of_bf16_multiply_it(products, monkeypatch):
    token = torch.arange(120).view(2, 60)
    qkv, change = torch.randn(120, 96).bfloat16().requires_grad_(), torch.randn(120, 32).bfloat16()
    found = []
    for way in ("numbers", products):
        multiply_by(way, monkeypatch)
        out = fused.attention(qkv, None, 2, None, token)
        found.append((out, *torch.autograd.grad(out, qkv, change)))
        multiplies = fused.kernel(torch.bfloat16, 16, True) is not fused.kernel(torch.bfloat16, 16, False)
        assert multiplies == (way == products)
        assert fused.kernel(torch.float32, 16, True) is fused.kernel(torch.float32, 16, False)
    for one, other in zip(*found, strict=True):
        assert not torch.equal(one, other) and (one - other).abs().max() <= 1.5e-2 * other.abs().max()


def test_it_is_used_where_it_applies(monkeypatch):
    calls = []
    inner = fused.call
    monkeypatch.setattr(fused, "call", lambda name, *rest: calls.append(name) or inner(name, *rest))
    qkv = torch.randn(2, 5, 24, requires_grad=True)
    mix(Product(qkv, None), 2, None, None).sum().backward()
    assert calls == ["forth", "back"]
    with torch.no_grad():
        mix(Product(qkv, None), 2, torch.randn(5, 5), None)  # a bias of its own for every query
        mix(Product(qkv.double(), None), 2, None, None)
        assert calls == ["forth", "back"]
        mix(Product(qkv, None), 2, torch.randn(5), None)
        mix(Product(qkv, None), 2, torch.randn(1, 5), None)
    assert calls == ["forth", "back", "forth", "forth"]
    assert not compiler.applies(torch.device("cuda"))
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert not compiler.applies(torch.device("cpu"))


def test_operations_are_counted_as_torch_counts_its_own(monkeypatch):
    layer, x, counts = ReZeroLayer(16, 2, 32), torch.randn(3, 7, 16), []
    for way in ("fused", "grid"):
        attend_by(way, monkeypatch)
        with FlopCounterMode(display=False) as counter:
            layer(Residual.of(x)).total.sum().backward()
        counts.append(counter.get_total_flops())
    assert counts[0] == counts[1] > 0


@pytest.mark.parametrize("shape", [(1, 1), (5, 16), (3, 4, 24), (70, 300)])
def test_gelu_and_its_gradient_are_as_exact_as_bf16(shape):
    torch.manual_seed(0)
    x, bias, change = (3 * torch.randn(shape)).bfloat16(), torch.randn(shape[-1]), torch.randn(shape).bfloat16()
    exact = [each.double().requires_grad_() for each in (x, bias)]
    wanted = torch.nn.functional.gelu(exact[0] + exact[1])
    wanted = [wanted, *torch.autograd.grad(wanted, exact, change.double())]
    given = [each.clone().requires_grad_() for each in (x, bias)]
    found = pointwise.gelu(*given)
    found = [found, *torch.autograd.grad(found, given, change)]
    assert [each.dtype for each in found] == [torch.bfloat16, torch.bfloat16, torch.float32]
    assert ((found[0] - wanted[0]).abs() <= 2**-8 * wanted[0].abs() + 5e-5).all()
    assert ((found[1] - wanted[1]).abs() <= 2**-8 * wanted[1].abs() + 1e-4 * change.abs()).all()
    rows = wanted[1].flatten(0, -2).abs().sum(dim=0)
    assert ((found[2] - wanted[2]).abs() <= 2**-8 * rows + 1e-3).all()


def test_gelu_of_numbers_far_away_and_of_what_is_none():
    x = (
        torch.tensor([[-torch.inf, -1e30, -6.0, -4.7, 4.7, 6.0, 1e30, torch.inf, torch.nan]])
        .bfloat16()
        .requires_grad_()
    )
    found = pointwise.gelu(x, torch.zeros(9))
    assert (found[0, :4].abs() < 3e-5).all() and torch.equal(found[0, 4:8], x[0, 4:8]) and found[0, 8].isnan()
    (slope,) = torch.autograd.grad(found, x, torch.ones(1, 9).bfloat16())
    assert (slope[0, :4].abs() < 1e-4).all() and (slope[0, 4:8] == 1).all() and slope[0, 8].isnan()


@pytest.mark.parametrize("shape", [(1, 1), (5, 16), (3, 4, 24), (70, 300)])
def test_residual_sums_and_their_gradients_equal_the_formula(shape):
    torch.manual_seed(0)
    x, y, scale, bias = torch.randn(shape), torch.randn(shape).bfloat16(), torch.randn(()), torch.randn(shape[-1])
    changes = torch.randn(shape), torch.randn(shape).bfloat16()
    given = [each.clone().requires_grad_() for each in (x, scale, y, bias)]
    total, rounded = pointwise.add(*given)
    assert torch.allclose(total, x + scale * (y + bias), atol=1e-6) and torch.equal(rounded, total.bfloat16())
    of_x, of_scale, of_y, of_bias = torch.autograd.grad((total, rounded), given, changes)
    change = changes[0] + changes[1]
    assert torch.equal(of_x, change) and torch.equal(of_y, (scale * change).bfloat16())
    assert torch.allclose(of_scale, (change * (y + bias)).sum(), rtol=1e-4, atol=1e-4)
    rows = change.flatten(0, -2)
    assert ((of_bias - scale * rows.sum(dim=0)).abs() <= 2**-8 * (scale * rows).abs().sum(dim=0)).all()
    for k in range(2):  # only one of them used
        (of_x,) = torch.autograd.grad(pointwise.add(*given)[k], given[:1], changes[k])
        assert torch.equal(of_x, changes[k].float())


def test_sums_of_other_formats_are_in_float32():
    x, y, bias = torch.randn(3, 8).bfloat16(), torch.randn(3, 8).bfloat16(), torch.randn(8).bfloat16()
    total, rounded = pointwise.add(x, torch.tensor(0.5).bfloat16(), y.t().contiguous().t(), bias)
    assert torch.allclose(total, x.float() + 0.5 * (y.float() + bias)) and torch.equal(rounded, total.bfloat16())


def test_biases_are_left_for_the_next_step_only_where_that_adds_them(monkeypatch):
    linear, x = torch.nn.Linear(8, 8), torch.randn(3, 8)
    with torch.autocast("cpu", torch.bfloat16):
        assert product(linear, x).bias is linear.bias and product(linear, x).numbers.dtype == torch.bfloat16
        apart = (
            gelu(product(linear, x)),
            Residual.of(x).plus(torch.tensor(0.5), product(linear, x)).total,
            product(linear, x).whole(),
        )
        monkeypatch.setattr(compiler, "compiles", lambda: False)
        assert product(linear, x).bias is None
        together = (
            gelu(product(linear, x)),
            Residual.of(x).plus(torch.tensor(0.5), product(linear, x)).total,
            product(linear, x).whole(),
        )
        assert all(torch.allclose(a.float(), b.float(), atol=3e-2) for a, b in zip(apart, together, strict=True))
        monkeypatch.undo()
    assert product(linear, x).bias is None  # float32
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    with torch.autocast("cpu", torch.bfloat16):
        assert product(linear, x).bias is None


TRAINS = """
import warnings
import torch
from models.kernels import attention as fused
from models.kernels import compiler, pointwise
from models.blocks import ReZeroLayer
from models.products import Residual
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for _ in range(2):
        ReZeroLayer(16, 2, 32)(Residual.of(torch.randn(2, 5, 16))).total.sum().backward()
print(compiler.compiles(), [str(warning.message) for warning in caught if "take about twice" in str(warning.message)])
"""


def trains(**env):
    result = subprocess.run([sys.executable, "-c", TRAINS], env={**os.environ, **env}, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_without_a_compiler_attention_works_and_says_so_once(tmp_path):
    broken, lying = tmp_path / "broken", tmp_path / "lying"
    broken.write_text("#!/bin/sh\necho pointwise.cpp: a note >&2\necho error: what machine is this >&2\nexit 3\n")
    lying.write_text('#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\necho nothing > "$2"\n')
    for each in (broken, lying):
        each.chmod(0o755)
    for command, reason in [
        ("no-such-compiler", "no C++ compiler 'no-such-compiler' to compile pointwise.cpp with"),
        (str(broken), f"{broken} cannot compile pointwise.cpp (error: what machine is this)"),
        (str(lying), "the compiled pointwise.cpp cannot be loaded ("),
    ]:
        said = trains(CXX=command, GUMBELDORE_CACHE=str(tmp_path / "cache"))
        assert said.startswith("False") and said.count("take about twice") == 1 and reason in said


def test_what_is_compiled_is_kept_and_neither_damage_nor_a_folder_that_cannot_be_is_an_obstacle(tmp_path):
    folder = tmp_path / "cache" / "kernels"
    assert trains(GUMBELDORE_CACHE=str(tmp_path / "cache")) == "True []\n"
    kept = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert len(kept) == 2 and all(path.suffix == ".so" for path in kept)  # pointwise, for asking, and attention
    assert trains(GUMBELDORE_CACHE=str(tmp_path / "cache")) == "True []\n"
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == kept
    damaged = min(folder.iterdir())
    damaged.write_text("not a library")
    assert trains(GUMBELDORE_CACHE=str(tmp_path / "cache")) == "True []\n"
    assert damaged.stat().st_size > 1000  # compiled again
    (tmp_path / "file").touch()
    assert trains(GUMBELDORE_CACHE=str(tmp_path / "file")) == "True []\n"
