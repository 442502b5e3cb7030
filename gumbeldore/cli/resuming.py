"""The configuration of a run that goes on: what may change, and what may not."""

from __future__ import annotations

from pathlib import Path

import yaml
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from gumbeldore.runtime.run_directory import RunDirectory

# Keys that a continued run may change. The harmless keys change no result (the number of workers, where they have
# several GPUs, may change the last bits of matrix products); the others may.
HARMLESS = ("resume", "time_limit", "workers", "images_every", "checkpoint_every", "ray.address")
OTHERS = (
    "search_batch_rows",
    "device",
    "precision",
    "train_processes",
    "train_threads",
    "worker_threads",
    "train.epochs",
    "train.cooldown_epochs",
)
RESUMABLE = (*HARMLESS, *OTHERS)
OF_DEVICE = ("search_batch_rows", "train_processes", "train_threads")  # on another device these are decided anew


def continued(cfg: DictConfig) -> DictConfig:
    """The configuration of the run to continue; ValueError if more is asked of it than it can change."""
    overrides = HydraConfig.get().overrides.task
    fixed = [word for word in overrides if word.split("=")[0] not in RESUMABLE]
    if fixed:
        raise ValueError(f"resume continues a run as it was configured; of {', '.join(RESUMABLE)} only, not {fixed[0]}")
    with RunDirectory.open(Path(cfg.resume)) as directory:
        saved = read_config(directory.config)
    ours, theirs = keys_of(cfg), keys_of(saved)
    for few, many, what in ((theirs, ours, "lacks"), (ours, theirs, "has")):
        if unknown := [key for key in many if key not in few]:
            where = f"another version made this run, {directory.config} {what} {unknown[0]}"
            raise ValueError(f"resume={cfg.resume}: {where}; a new run can begin with its weights (init=)")
    given = [word.split("=")[0] for word in overrides]
    for key in given:
        OmegaConf.update(saved, key, OmegaConf.select(cfg, key))
    for key in OF_DEVICE if "device" in given else ():
        if key not in given:
            saved[key] = "auto"
    return saved


def read_config(path: Path) -> DictConfig:
    """The configuration of an earlier run. Raises ValueError if somebody has changed the file so that it is none."""
    try:
        config = OmegaConf.load(path)
    except (yaml.YAMLError, OmegaConfBaseException, OSError) as error:
        raise ValueError(f"{path} is not the configuration of a run: {str(error).splitlines()[0]}") from None
    if not isinstance(config, DictConfig) or not OmegaConf.is_dict(config.get("train")):
        raise ValueError(f"{path} is not the configuration of a run: it has no keys of train")
    return config


def keys_of(cfg: DictConfig) -> list[str]:
    """Those that every run has, whatever its problem and its search."""
    return [*cfg, *(f"train.{key}" for key in cfg.train)]
