"""Every setting of the commands is a field of a class; here are those of the commands themselves.

`configs/*.yaml` begin with the defaults of these classes: Hydra finds them under the names `train_defaults`,
`evaluate_defaults`, ...
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import MISSING, dataclass, field
from typing import Any

from hydra.core.config_store import ConfigStore

from gumbeldore.evaluation.baseline import SolverSettings
from gumbeldore.races.racing import RaceSettings
from gumbeldore.runtime.checked import Checked, at_least, one_of, positive
from gumbeldore.runtime.hardware import SOLVER_THREADS
from gumbeldore.runtime.precision import PRECISIONS
from gumbeldore.sampler.methods import DEFAULTS
from gumbeldore.studies import STUDIES
from gumbeldore.training.settings import ALGORITHMS


@dataclass(frozen=True, kw_only=True)
class MachineSettings(Checked):
    """What a command uses of the machine, and the seed of its random numbers.

    Arguments:
        seed: seed of all random numbers
        device: cpu, cuda, cuda:1, ...; auto: cuda if there is one
        precision: bf16 or float32; auto: bf16 on GPUs that have instructions for it, float32 on CPUs
        compile: torch.compile the network's layers, in a training also for its searches on a GPU; minutes at the
            start, then faster steps for some networks; an evaluation compiles on a GPU alone
        workers: Ray actors that search; auto: one per worker_threads CPU cores, or per GPU if there are several, none
            in an evaluation that searches all instances together; 0: this process searches, without Ray
        worker_threads: CPU threads of each worker (part of what makes runs bit-identical)
        search_batch_rows: beam rows (instances * beam width) searched together, at most; auto: 1024 on a CPU, 16384 on
            a GPU
    """

    seed: int = at_least(0, 0)
    device: str = "auto"
    precision: str = one_of(*PRECISIONS)
    compile: bool = False
    workers: int | str = at_least(0, "auto", word="auto")
    worker_threads: int = at_least(1, 1)
    search_batch_rows: int | str = at_least(1, "auto", word="auto")


@dataclass(frozen=True, kw_only=True)
class RunSettings(MachineSettings):
    """A training.

    Arguments:
        run_dir: folder of the run, which must be empty or not there yet; null: runs/<problem>/<time>
        init: checkpoint, run directory or name of a shipped policy whose weights the training starts from; the policy
            must have a network like model= and be for the same problem; optimiser and counters start anew, and so does
            problem.grow (null: instances are full-sized from the start)
        resume: run directory to continue. Its own configuration applies, but for the keys that docs/training.md names
        time_limit: seconds until a clean stop; a continued run has the same time again, unless changed
        train_threads: CPU threads of each process that trains; auto: one per core altogether
        checkpoint_every: epochs between copies of the best policy so far, checkpoints/epoch_<number>.pt; of more than
            20 copies, every second, fourth, ... stays; null: no copies
        images_every: epochs between pictures of validation solutions
    """

    run_dir: str | None = None
    init: str | None = None
    resume: str | None = None
    time_limit: float | None = positive(None)
    train_threads: int | str = at_least(1, "auto", word="auto")
    checkpoint_every: int | None = at_least(1, None)
    images_every: int = at_least(1, 20)


@dataclass(frozen=True, kw_only=True)
class EvaluationSettings(MachineSettings):
    """An evaluation.

    Arguments:
        checkpoint: a checkpoint file, a run directory (its best policy), or a policy that is shipped, by its name
            (tsp20, ...); null: for each instance the shipped policy for such sizes (pretrained/README.md)
        instances: a standard set (kool/tsp20, gd/cvrp200, taillard, ...), an .npz, a benchmark file or a folder of
            files
        num_instances: the first so many; null: all
        references: solver: compute the references that are missing; or a .csv with the columns name, cost and, if
            wanted, kind
        out_dir: folder of the results; null: evaluations/<time>
        resume: go on in out_dir where the same command was stopped or killed
    """

    checkpoint: str | None = None
    instances: str
    num_instances: int | None = at_least(1, None)
    references: str | None = None
    out_dir: str | None = None
    resume: bool = False


@dataclass(frozen=True, kw_only=True)
class StudySettings(EvaluationSettings):
    """A study, but for what only studies of its kind read.

    Arguments:
        num_instances: the first so many; there must be as many if it is typed, else all are taken; null: all
        kind: kind of the study, which study= sets
    """

    checkpoint: str = field()  # none is chosen for the instances
    num_instances: int | None = at_least(1, 100)
    kind: str


@dataclass(frozen=True, kw_only=True)
class ExpertSettings(Checked):
    """Training instances that an established solver solves.

    Arguments:
        num_instances: how many to solve
        out: the .npz to write; it must not exist yet
        seed: seed of all random numbers
        time_limit: seconds per instance, at most
        patience: TSP and CVRP: stop earlier, after so many iterations without improvement
        workers: Ray actors, one instance at a time each; 0: this process, without Ray
        threads: of CP-SAT, shared among the workers, at least one each; PyVRP has one
    """

    num_instances: int = at_least(1, 1000)
    out: str
    seed: int = at_least(0, 0)
    time_limit: float = positive(1)
    patience: int | None = at_least(1, None)
    workers: int | str = at_least(0, "auto", word="auto")
    threads: int = at_least(1, SOLVER_THREADS)


@dataclass(frozen=True, kw_only=True)
class RaySettings(Checked):
    """A Ray cluster.

    Arguments:
        address: host:port of the head of a cluster that the workers are started on, auto: that of this machine; null:
            no cluster
    """

    prefix = "ray."

    address: str | None = None


def defaults_of(cls: type) -> dict[str, Any]:
    """The default of each field; ??? where it must be given."""
    return {spec.name: "???" if spec.default is MISSING else spec.default for spec in dataclasses.fields(cls)}


def any_of(classes: Iterable[type]) -> dict[str, Any]:
    """The default of each field of the classes, one of which is chosen; None where it must be given.

    A field that several classes have has the default of the last of them.
    """
    return {name: None if value == "???" else value for cls in classes for name, value in defaults_of(cls).items()}


SEARCH = {name: DEFAULTS[name] for name in ("beam_width", "num_rounds", "step_size")}  # the first to be shown
SEARCH |= {**DEFAULTS, "time_limit": None}
# Of a field that several algorithms have, the default of self-improvement wins.
TRAIN = {"algorithm": "self_improvement", **any_of(reversed(ALGORITHMS.values()))}
OF_STUDIES = {**any_of(reversed(STUDIES.values())), "race": defaults_of(RaceSettings)}
OF_SOLVER, OF_RAY = defaults_of(SolverSettings), defaults_of(RaySettings)
COMMANDS: dict[str, dict[str, Any]] = {
    # A step size of another problem would be wrong without notice.
    "train": {**defaults_of(RunSettings), "train": TRAIN, "search": {**SEARCH, "step_size": "???"}, "ray": OF_RAY},
    "evaluate": {**defaults_of(EvaluationSettings), "search": SEARCH, "solver": OF_SOLVER, "ray": OF_RAY},
    "study": {**defaults_of(StudySettings), **OF_STUDIES, "search": SEARCH, "solver": OF_SOLVER, "ray": OF_RAY},
    "experts": {**defaults_of(ExpertSettings), "train": TRAIN, "search": SEARCH, "ray": OF_RAY},
}
for command, values in COMMANDS.items():
    ConfigStore.instance().store(f"{command}_defaults", values, provider="gumbeldore")
