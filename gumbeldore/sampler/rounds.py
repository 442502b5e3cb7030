"""Rounds of stochastic beam search over one trie, which learns from each of them [GD, algorithm 2]."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

from gumbeldore.sampler.solutions import Round
from gumbeldore.sampler.trie_search import TrieSearch
from gumbeldore.sampler.updates import Update


def rounds(search: TrieSearch, nucleus: Callable[[int], float], update: Update) -> Iterator[Round]:
    """Round after round, until every solution has been sampled. The caller takes as many as it wants.

    Arguments:
        nucleus: of a round, from 0 on
        update: what the trie learns from a round before the next one

    Raises OutOfTime at the task's deadline, and TrieFull where the trie would outgrow the task's memory.
    """
    for number in itertools.count():
        leaves, found = search.sample(nucleus(number))
        yield found
        search.learn(update, leaves, found)
        if search.exhausted:
            return
