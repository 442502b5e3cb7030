"""Tensors that are compared."""

from __future__ import annotations

import torch


def same_tensors(a, b):
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))
