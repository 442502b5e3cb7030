"""What is done to the inputs of torch's fused kernels changes no result; tests/test_gpu.py asks the kernels."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from models import fused_attention
from models.attention import attention, bias_against

BIASES = {"none": None, "groups": (7, 1, 1, 5), "heads": (3, 1, 5), "all": (7, 3, 5, 5)}


def inputs(size: int, dtype: torch.dtype, bias: str):
    generator = torch.Generator().manual_seed(0)
    packed = torch.randn(7, 5, 3, 3, size, generator=generator).to(dtype)
    shape = BIASES[bias]
    return *packed.permute(2, 0, 3, 1, 4), None if shape is None else torch.randn(shape, generator=generator)


@pytest.mark.parametrize("rows", [2, 3, 6, 7])
@pytest.mark.parametrize("bias", BIASES)
def test_parts_are_the_whole(bias, rows, monkeypatch):
    given = inputs(12, torch.float64, bias)
    monkeypatch.setattr(fused_attention, "MAX_ROWS", rows)
    called = []
    monkeypatch.setattr(
        fused_attention,
        "aligned_attention",
        lambda *part, original=fused_attention.aligned_attention: called.append(len(part[0])) or original(*part),
    )
    found = fused_attention.fused_attention(*given)
    assert called == [len(part) for part in torch.arange(7).split(rows)]
    *qkv, bias = given
    torch.testing.assert_close(found, attention(torch.stack(qkv), bias))


@pytest.mark.parametrize(
    ("size", "dtype", "bias", "asked"),
    [
        (12, torch.bfloat16, "groups", 16),
        (12, torch.bfloat16, "none", 16),
        (16, torch.bfloat16, "groups", 16),
        (12, torch.float32, "groups", 12),
        (6, torch.float32, "heads", 8),
        (6, torch.float32, "all", 8),
    ],
)
def test_vectors_are_aligned_and_the_result_is_the_same(size, dtype, bias, asked, monkeypatch):
    query, key, value, bias = inputs(size, dtype, bias)
    bias = None if bias is None else bias.to(dtype)
    expected = F.scaled_dot_product_attention(query, key, value, bias)
    sizes = []

    def fused(query, *others, original=F.scaled_dot_product_attention, **options):
        sizes.append(query.shape[-1])
        return original(query, *others, **options)

    monkeypatch.setattr(F, "scaled_dot_product_attention", fused)
    found = fused_attention.aligned_attention(query, key, value, bias)
    assert sizes == [asked] and found.shape == query.shape and found.dtype == dtype
    torch.testing.assert_close(found, expected)


def test_gradients_are_the_same(monkeypatch):
    monkeypatch.setattr(fused_attention, "MAX_ROWS", 3)
    gradients = []
    for function in (lambda *given: attention(torch.stack(given[:3]), given[3]), fused_attention.fused_attention):
        *qkv, bias = (x.detach().requires_grad_() for x in inputs(6, torch.float32, "groups"))
        function(*qkv, bias.detach()).square().sum().backward()
        gradients.append([x.grad for x in qkv])
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("tokens", [40, 41])
def test_matrix_products_and_fused_attention_give_the_same(tokens, biased, monkeypatch):
    """On a CPU the number of tokens decides; inputs are views, as layers pass them."""
    qkv = torch.randn(2, tokens, 3, 4, 16, generator=torch.Generator().manual_seed(0)).permute(2, 0, 3, 1, 4)
    bias = bias_against(torch.arange(tokens) > 30)[None, None, None] if biased else None
    taken = attention(qkv, bias)
    monkeypatch.setattr("models.attention.products_are_faster", lambda qkv: tokens > 40)
    other = attention(qkv, bias)
    assert not torch.equal(taken, other)
    torch.testing.assert_close(taken, other)
