"""Paths as values of the command line: whatever a file or a folder is called, the shell's quoting is enough."""

from __future__ import annotations

import os
from collections.abc import Iterable

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, Quote, QuotedString
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf

READ = ("checkpoint", "instances", "references", "resume", "init", "train.experts", "train.instances")
WRITTEN = ("out_dir", "run_dir", "out")
KEYWORDS = ("", "null", "true", "false")  # values of these keys that are no paths


def quoted_paths(words: Iterable[str], sweep: bool) -> list[str]:
    """The words of a command line, with quotes of Hydra's grammar around paths that the grammar would read otherwise.

    Arguments:
        sweep: whether a list of values means several runs (--multirun)
    """
    return [_quoted(word, sweep) for word in words]


def _quoted(word: str, sweep: bool) -> str:
    key, _, value = word.partition("=")
    if key not in READ + WRITTEN or value.strip().lower() in KEYWORDS:
        return word
    meant, exists = _parsed(word), os.path.lexists(os.path.expanduser(value))
    if meant and not exists and not _must_be_a_path(meant, key, value, sweep):
        return word
    if meant and not meant.is_sweep_override() and meant.value() == value:
        return word
    text = value.replace("${", "\\${") if exists else value  # otherwise an interpolation stays what it is
    return f"{key}={QuotedString(text, Quote.single).with_quotes()}"


def _parsed(word: str) -> Override | None:
    """What the word means to Hydra, None if nothing."""
    try:
        return OverridesParser.create().parse_overrides([word])[0]
    except HydraException:
        return None


def _must_be_a_path(meant: Override, key: str, value: str, sweep: bool) -> bool:
    """Whether a value that does not exist, but means something to Hydra, is a path all the same."""
    if meant.is_sweep_override():
        return not sweep
    if value[0] in "'\"" or "${" in value:  # quoted for Hydra already, or put together of other values
        return False
    return key in WRITTEN and os.path.isdir(os.path.dirname(os.path.expanduser(value)) or ".")


def expand_home(cfg: DictConfig) -> None:
    """Put the user's home folder in place of the `~` that a path begins with."""
    for key in READ + WRITTEN:
        value = OmegaConf.select(cfg, key, throw_on_missing=False)
        if isinstance(value, str) and value.startswith("~"):
            OmegaConf.update(cfg, key, os.path.expanduser(value).replace("${", "\\${"))
