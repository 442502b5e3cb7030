"""A layer in one pass, by both products of bf16: as the formulas, whatever the sizes, and only where it applies."""

from __future__ import annotations

import copy
import functools

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from models.blocks import ReZeroLayer
from models.bq import BQ
from models.kernels import compiler
from models.kernels import layer as fused
from models.products import Residual
from tests.networks import PRODUCTS, awake, multiply_by

SIZES = [(16, 16), (48, 80), (64, 32), (128, 512)]  # width, feedforward


@pytest.fixture(params=PRODUCTS)
def products(request, monkeypatch):
    multiply_by(request.param, monkeypatch)


def rounded(x):
    return x.bfloat16().double()


@pytest.mark.usefixtures("products")
@pytest.mark.parametrize("rows", [(1,), (2, 7), (32,), (3, 11), (130,)])
@pytest.mark.parametrize(("inputs", "outputs"), [*SIZES, (512, 128), (80, 48)])
def test_products_equal_the_formula(inputs, outputs, rows):
    torch.manual_seed(0)
    x, weight = torch.randn(*rows, inputs).bfloat16(), torch.randn(outputs, inputs) * inputs**-0.5
    for bias in (None, torch.randn(outputs)):
        wanted = x.double() @ rounded(weight).t() + (0 if bias is None else bias)
        found = fused.linear(x, weight, bias)
        assert found.dtype == torch.bfloat16 and found.shape == wanted.shape
        assert ((found - wanted).abs() <= 2**-8 * wanted.abs() + 1e-5).all()  # of one rounding


@pytest.mark.usefixtures("products")
@pytest.mark.parametrize("rows", [(1,), (2, 7), (32,), (3, 11), (130,)])
@pytest.mark.parametrize(("width", "feedforward"), SIZES)
def test_the_rest_of_a_layer_equals_the_formula(width, feedforward, rows):
    torch.manual_seed(0)
    mixed, x, scale = torch.randn(*rows, width).bfloat16(), torch.randn(*rows, width), torch.tensor(-0.7)
    maps = nn.Linear(width, width), nn.Linear(width, feedforward), nn.Linear(feedforward, width)
    total, low = fused.rest(mixed, x, scale, *maps)
    out, widen, narrow = (lambda x, of=each: x @ rounded(of.weight).t() + of.bias.double() for each in maps)
    wanted = x.double() + scale.double() * out(mixed.double())
    wide = F.gelu(widen(rounded(wanted)))
    wanted = wanted + scale.double() * narrow(rounded(wide))
    # Sums that round to another neighbour, and GELU to 3e-5, are less than its half of a bf16 away each.
    assert total.dtype == torch.float32 and (total - wanted).abs().max() <= 2e-3
    assert torch.equal(low, total.bfloat16())


def away(found, wanted):
    """Length of the difference, in that of what is wanted."""
    return (found.double() - wanted.double()).norm() / wanted.double().norm()


@pytest.mark.usefixtures("products")
@pytest.mark.parametrize("rows", [(1,), (2, 7), (32,), (300,)])
@pytest.mark.parametrize(("inputs", "outputs"), [*SIZES, (512, 128), (80, 48)])
def test_gradients_of_products_equal_the_formula(inputs, outputs, rows):
    torch.manual_seed(0)
    x, change = torch.randn(*rows, inputs).bfloat16(), torch.randn(*rows, outputs).bfloat16()
    given = (
        x.requires_grad_(),
        torch.randn(outputs, inputs, requires_grad=True),
        torch.randn(outputs, requires_grad=True),
    )
    of_x, of_weight, of_bias = torch.autograd.grad(fused.linear(*given), given, change)
    change, x = change.double(), x.detach().double()
    assert of_x.dtype == torch.bfloat16 and away(of_x, change @ rounded(given[1].detach())) <= 2**-8
    assert away(of_weight, change.flatten(0, -2).T @ x.flatten(0, -2)) <= 1e-5  # nothing to round
    assert away(of_bias, change.flatten(0, -2).sum(dim=0)) <= 1e-5
    x = given[0].detach().requires_grad_()
    assert torch.equal(torch.autograd.grad(fused.linear(x, given[1].detach(), None), x, change.bfloat16())[0], of_x)


def rest_and_gradients(mixed, x, scale, maps, changes):
    """What `rest` gives, and by the same formulas in float64: gradients of mixed, x, scale, weights and biases."""
    found = []
    for exact in (False, True):
        number = (lambda t: t.detach().double()) if exact else torch.Tensor.detach
        given = [number(t).requires_grad_() for t in (mixed, x, scale)]
        linears = [copy.deepcopy(each).to(torch.float64 if exact else torch.float32) for each in maps]
        if exact:
            total = given[1] + given[2] * linears[0](given[0])
            total = total + given[2] * linears[2](F.gelu(linears[1](total)))
            results = total, total
        else:
            results = fused.rest(*given, *linears)
        wanted = [*given, *(each for linear in linears for each in (linear.weight, linear.bias))]
        found.append(
            torch.autograd.grad(
                results, wanted, [change.to(t.dtype) for change, t in zip(changes, results, strict=True)]
            )
        )
    return found


@pytest.mark.usefixtures("products")
@pytest.mark.parametrize("rows", [(1,), (2, 7), (32,), (300,)])
@pytest.mark.parametrize("scale", [-0.7, 0.0])
@pytest.mark.parametrize(("width", "feedforward"), [*SIZES, (80, 48)])
def test_gradients_of_the_rest_of_a_layer_equal_the_formula(width, feedforward, scale, rows):
    torch.manual_seed(0)
    mixed, x, scale = torch.randn(*rows, width).bfloat16(), torch.randn(*rows, width), torch.tensor(scale)
    maps = nn.Linear(width, width), nn.Linear(width, feedforward), nn.Linear(feedforward, width)
    changes = torch.randn(*rows, width), torch.randn(*rows, width).bfloat16()
    found, wanted = rest_and_gradients(mixed, x, scale, maps, changes)
    for i, (a, b) in enumerate(zip(found, wanted, strict=True)):
        assert a.shape == b.shape
        if i == 2:  # a sum of as many numbers of either sign
            assert (a - b).abs() <= 6e-3 * 2 * changes[0].norm() * (x.norm() + mixed.float().norm())
        elif b.any():
            assert away(a, b) <= 2**-7  # of two roundings
        else:
            assert not a.any()


@pytest.mark.usefixtures("products")
def test_gradients_do_not_depend_on_chance_other_rows_or_what_is_not_used():
    torch.manual_seed(0)
    layer, threads = awake(ReZeroLayer(48, 4, 96)), torch.get_num_threads()
    x, change = torch.randn(77, 5, 48), torch.randn(77, 5, 48)

    def gradients(x, change):
        x = x.clone().requires_grad_()
        layer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            layer(Residual.of(x)).total.backward(change)
        return x.grad, [each.grad.clone() for each in layer.parameters()]

    try:
        torch.set_num_threads(1)
        alone = gradients(x, change)
        torch.set_num_threads(3)  # more than some rows have blocks
        of_x, of_parameters = gradients(x, change)
        again = gradients(x, change)
        few, _ = gradients(x[:32], change[:32])
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(of_x, alone[0]) and torch.equal(of_x[:32], few)
    assert torch.equal(of_x, again[0])
    for one, two, three in zip(alone[1], of_parameters, again[1], strict=True):
        assert torch.equal(two, three) and one.any()
        assert (one - two).abs().max() <= 1e-5 * one.abs().max()  # sums in another order
    change[4, 2, 7] = torch.nan
    of_x, of_parameters = gradients(x, change)
    assert of_x[4].isnan().any() and torch.equal(of_x[5:], alone[0][5:])
    assert all(each.isnan().any() for each in of_parameters)


@pytest.mark.usefixtures("products")
def test_neither_other_rows_nor_threads_change_a_row():
    torch.manual_seed(0)
    layer = awake(ReZeroLayer(48, 4, 96))
    x, threads = torch.randn(77, 5, 48), torch.get_num_threads()
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        try:
            torch.set_num_threads(1)
            whole = layer(Residual.of(x))
            torch.set_num_threads(2)
            for rows in (slice(0, 77), slice(3, 4), slice(20, 61)):
                part = layer(Residual.of(x[rows]))
                assert torch.equal(part.total, whole.total[rows]) and torch.equal(part.rounded, whole.rounded[rows])
        finally:
            torch.set_num_threads(threads)
        x[0, 0, 0] = torch.nan
        damaged = layer(Residual.of(x)).total
        assert damaged[0].isnan().any() and torch.equal(damaged[1:], whole.total[1:])


@pytest.mark.usefixtures("products")
@pytest.mark.parametrize("size", [(48, 4, 96), (40, 4, 96), (48, 4, 100)])
def test_layers_are_the_same_with_and_without_gradients(size, monkeypatch):
    """The last two sizes are not multiples of a vector: torch's products do them."""
    torch.manual_seed(0)
    layer, x, calls = awake(ReZeroLayer(*size)), torch.randn(6, 9, size[0]), []
    inner = fused.call
    monkeypatch.setattr(fused, "call", lambda name, *rest: calls.append(name) or inner(name, *rest))
    found = {}
    for grad in (True, False):
        for precision in (torch.bfloat16, torch.float32):
            with torch.set_grad_enabled(grad), torch.autocast("cpu", precision, enabled=precision != torch.float32):
                out = layer(Residual.of(x)).total
                assert out.requires_grad == grad
            found[grad, precision] = out.detach()
    assert calls == (["linear", "rest"] * 2 if size == (48, 4, 96) else [])
    exact = found[True, torch.float32]
    for grad in (True, False):
        assert (found[grad, torch.bfloat16] - exact).abs().max() <= 2e-2 * exact.abs().max()


@pytest.mark.usefixtures("products")
def test_networks_take_any_number_of_rows_where_all_of_their_layers_are_in_one_pass(monkeypatch):
    for width, all_of_them in ((32, True), (40, False)):
        network = BQ(width=width, layers=2, heads=4, feedforward=64, own_frame=True, successor_loss=0.0)
        assert network.any_rows == all_of_them
        with monkeypatch.context() as here:
            here.setattr(compiler, "multiplying", lambda *_: None)
            assert not network.any_rows


@pytest.mark.usefixtures("products")
@pytest.mark.parametrize("grad", [False, True])
def test_operations_are_counted_as_torch_counts_its_own(grad, monkeypatch):
    layer, x, counts = ReZeroLayer(16, 2, 32), torch.randn(3, 7, 16, requires_grad=grad), []
    with torch.set_grad_enabled(grad), torch.autocast("cpu", torch.bfloat16):
        for one_pass in (True, False):
            if not one_pass:
                monkeypatch.setattr(compiler, "multiplying", lambda *_: None)
            with FlopCounterMode(display=False) as counter:
                out = layer(Residual.of(x)).total
                if grad:
                    out.sum().backward()
            counts.append(counter.get_total_flops())
    assert counts[0] == counts[1] > 0


def test_it_is_used_where_it_applies(monkeypatch):
    device, weight = torch.device("cpu"), torch.randn(16, 16)
    monkeypatch.setattr(compiler, "multiplying", lambda *_: object())  # as if
    monkeypatch.setattr(compiler, "applies", lambda device: True)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        assert fused.applies(device, weight, torch.randn(3, 16, 32))
        assert not fused.applies(device, weight, torch.randn(16, 24)) and not fused.applies(device, weight.bfloat16())
        with torch.enable_grad():
            assert fused.applies(device, weight)
        monkeypatch.setattr(compiler, "multiplying", lambda *_: None)
        assert not fused.applies(device, weight)
        assert ReZeroLayer(16, 2, 32)(Residual.of(torch.randn(2, 5, 16))).total.shape == (2, 5, 16)
    monkeypatch.undo()
    with torch.no_grad():
        assert not fused.applies(device, weight)  # float32


def test_products_are_the_fastest_that_machine_and_compiler_have(monkeypatch):
    flags = compiler.processor() if compiler.compiles() else ""
    tiles, pairs = "amx_bf16" in flags and torch.cpu._init_amx(), "avx512_bf16" in flags
    known = compiler.on_tiles("layer"), compiler.on_pairs("layer")
    assert [each is not None for each in known] == [tiles, pairs]
    assert compiler.multiplying("layer") is (known[0] or known[1])
    for name in ("on_tiles", "on_pairs"):  # without what is known already
        monkeypatch.setattr(compiler, name, functools.cache(getattr(compiler, name).__wrapped__))
    monkeypatch.setattr(compiler, "processor", lambda: "flags: none")
    assert compiler.multiplying("layer") is None
