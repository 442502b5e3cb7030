"""Workers of Ray that die, cannot start or raise: what is searched again, and what ends a run."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from gumbeldore import SearchPool, methods
from gumbeldore.parallel import ray_cluster
from gumbeldore.parallel.ray_actors import Actors
from gumbeldore.runtime.errors import WorkerError
from models.bq_tsp import BQ
from problems.tsp import TSP
from tests.helpers.learners import found_by, network, of_all
from tests.helpers.tensors import same_tensors

ROOT = Path(__file__).parents[2]


class Marks:
    """Leaves a file when it is made, and another one at its first job."""

    def __init__(self, folder):
        self.folder = folder
        (folder / f"made {os.getpid()}").touch()

    def work(self, number):
        (self.folder / f"worked {os.getpid()}").touch()
        return number


@pytest.mark.slow
def test_prepared_actors_have_their_objects_before_the_first_job(tmp_path):
    ray_cluster.start_ray(2)
    actors = Actors(Marks, (tmp_path,), 2, "", ray_cluster.placement(1, 0))
    actors.prepare()
    assert [path.name.split()[0] for path in tmp_path.iterdir()] == ["made", "made"]
    assert sorted(number for number, _ in actors.map(4, lambda number: (number,))) == [0, 1, 2, 3]
    actors.close()
    assert len(list(tmp_path.glob("made *"))) == 2


class Struck(TSP):
    """Kills its process in the middle of a chunk, as often as there are files in the folder."""

    def __init__(self, folder, kills):
        super().__init__(7)
        self.folder, self.caller = folder, os.getpid()
        for number in range(kills):
            (folder / str(number)).touch()

    def step(self, instance, state, action):
        for file in self.folder.iterdir() if os.getpid() != self.caller else ():
            with contextlib.suppress(FileNotFoundError):  # the other worker took it
                file.unlink()
                os.kill(os.getpid(), signal.SIGKILL)
        return super().step(instance, state, action)


@pytest.mark.slow
def test_the_chunk_of_a_killed_worker_is_searched_again(tmp_path):
    problem = Struck(tmp_path, kills=2)
    found = found_by(problem, workers=2)
    assert list(tmp_path.iterdir()) == [] and same_tensors(found, found_by(problem, workers=0))


class Known(TSP):
    """Leaves the ids of the processes it works in."""

    def __init__(self, folder):
        super().__init__(7)
        self.folder = folder

    def step(self, instance, state, action):
        (self.folder / str(os.getpid())).touch()
        return super().step(instance, state, action)


@pytest.mark.slow
def test_a_worker_killed_between_two_searches_comes_back_with_its_weights(tmp_path):
    policy, other = network(), network()
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.add_(0.1)
    with SearchPool(Known(tmp_path), policy, workers=1, search_batch_rows=12) as pool:
        pool.load(other.state_dict())
        before = of_all(pool)
        (worker,) = (int(file.name) for file in tmp_path.iterdir())
        os.kill(worker, signal.SIGKILL)
        assert same_tensors(of_all(pool), before)
        assert len(list(tmp_path.iterdir())) == 2
    assert same_tensors(before, found_by(TSP(7), 0, other)) and not same_tensors(before, found_by(TSP(7), 0, policy))


@pytest.mark.slow
def test_a_chunk_that_kills_every_worker_ends_the_run(tmp_path):
    rule = "3 workers died of the same work; if they ran out of memory, lower search_batch_rows"
    with pytest.raises(WorkerError, match=rule):
        found_by(Struck(tmp_path, kills=100), workers=1)
    assert len(list(tmp_path.iterdir())) == 97


class Refuses(TSP):
    def __setstate__(self, state):
        raise ZeroDivisionError("no bed for me")


@pytest.mark.slow
def test_a_worker_that_cannot_start_ends_the_run_with_its_text():
    with pytest.raises(WorkerError, match="no bed for me"):
        found_by(Refuses(7), workers=2)


@pytest.mark.slow
def test_weights_do_not_pile_up_in_the_object_store():
    import ray

    policy = BQ(width=128, layers=2, heads=4, feedforward=512, canonical_coordinates=False, successor_loss=0)
    size = 4 * sum(parameter.numel() for parameter in policy.parameters())
    used = []
    with SearchPool(TSP(5), policy, workers=2) as pool:
        instances = TSP(5).generate(2, torch.Generator())
        for _ in range(50):
            pool.load(policy.state_dict())
            list(pool.map(instances, torch.arange(2), methods.Greedy()))
            store = "object_store_memory"
            used.append(ray.cluster_resources()[store] - ray.available_resources()[store])
    assert size < used[-1] and max(used) < 4 * size  # what actors start with, the last weights, and those before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variable", "value", "why"),
    [("TMPDIR", "long", "AF_UNIX path length"), ("HOME", "/proc/no", "No such file or directory: '/proc/no'")],
)
def test_a_ray_that_cannot_start_says_why_and_what_works_without_it(variable, value, why, tmp_path):
    if value == "long":
        value = tmp_path / ("x" * 100)
        value.mkdir()
    code = "from gumbeldore.parallel.ray_cluster import start_ray\nstart_ray(1)"
    environment = {**os.environ, variable: str(value)}
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True)
    line = done.stderr.splitlines()[-1]
    assert line.startswith("ValueError: Ray cannot start because of this: ") and why in line
    assert "; workers=0 works without it" in line
