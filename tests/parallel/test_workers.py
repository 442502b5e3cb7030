"""How many workers there are, when they get work, when Ray is started and missed, and what to do about memory."""

from __future__ import annotations

import os
import resource
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from gumbeldore.parallel import ray_cluster
from gumbeldore.parallel import ray_cluster as cluster
from gumbeldore.parallel.devices import CPU_BATCH_ROWS, resolve_rows, resolve_threads, resolve_workers
from gumbeldore.parallel.pool import SearchPool
from gumbeldore.parallel.ray_actors import Actors
from gumbeldore.runtime.errors import WorkerError
from problems.tsp import TSP
from tests.helpers.learners import SEARCH, found_by, network


def test_no_worker_gets_a_second_job_before_all_have_given_a_sign_of_life():
    """Or the first one up would work off two jobs while the others have nothing to do."""
    actors = object.__new__(Actors)
    actors.alive, actors.unconfirmed = ["a"], {"heartbeat of b": "b"}
    assert actors._with_room({}, left=3) == "a"
    assert actors._with_room({"job 0": ("a", 0)}, left=2) is None
    actors.alive, actors.unconfirmed = ["a", "b"], {}
    assert actors._with_room({"job 0": ("a", 0)}, left=2) == "b"
    both = {"job 0": ("a", 0), "job 1": ("b", 1)}
    assert actors._with_room(both, left=1) is None  # the last one goes to whoever is free first
    assert actors._with_room(both, left=3) == "a"  # where many are left, one waits at each


@pytest.mark.parametrize(
    ("alive", "message"), [(True, "^a worker could not start: "), (False, "^the Ray cluster does")]
)
def test_a_worker_that_died_with_its_node_could_start(alive, message, monkeypatch):
    """As when one of Ray's agents dies: the node goes, too, but answers until it has gone."""
    import ray

    def dead(reference):
        error = "The actor is dead because its owner has died.\n\tclass_name: Actor"
        raise ray.exceptions.RayActorError(error_msg=error)

    monkeypatch.setattr(ray, "get", dead)
    monkeypatch.setattr(ray, "nodes", lambda: [{"NodeID": "other", "Alive": True}, {"NodeID": "here", "Alive": alive}])
    monkeypatch.setattr(ray, "get_runtime_context", lambda: SimpleNamespace(get_node_id=lambda: "here"))
    actors = object.__new__(Actors)
    actors.heartbeat_addresses, actors.alive, actors.unconfirmed = [], [], {"heartbeat": "actor"}
    with pytest.raises(WorkerError, match=message):
        actors._confirm("heartbeat")


class Niceness:
    """What a worker's priority is."""

    def work(self) -> int:
        return os.nice(0)


def test_workers_have_the_priority_of_their_process():
    """Or they would get no time beside other processes."""
    ray_cluster.start_ray(1)
    actors = Actors(Niceness, (), 1, "", ray_cluster.placement(threads=1))
    try:
        assert list(actors.map(1, lambda number: ())) == [(0, os.nice(0))]
    finally:
        actors.close()


@pytest.mark.parametrize("fault", [None, OSError("no space")])
def test_a_ray_that_a_thread_starts_outlives_the_thread(fault, monkeypatch):
    """Or a pool in another thread would wait for it: on Linux, processes may end with the thread that started them."""
    started, said = [], []

    def init(**options):
        started.append(threading.current_thread())
        if fault:
            raise fault

    fake = SimpleNamespace(init=init, is_initialized=lambda: bool(started) and not fault)
    monkeypatch.setattr(ray_cluster, "_ray", lambda *words: fake)

    def start():
        try:
            ray_cluster.start_ray(1)
        except ValueError as error:
            said.append(str(error))

    threads = [threading.Thread(target=start) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all("no space" in line for line in said) and len(said) == (2 if fault else 0)
    assert len(started) == (2 if fault else 1)
    assert fault or started[0].is_alive()


def test_a_pool_that_finds_its_ray_gone_does_not_wait_for_it(monkeypatch):
    import ray

    monkeypatch.setattr(ray, "get_runtime_context", lambda: SimpleNamespace(gcs_address="127.0.0.1:9"))
    monkeypatch.setattr(ray, "nodes", lambda: pytest.fail("this would wait for ever"))
    with pytest.raises(WorkerError, match="^the Ray cluster does not answer any more$"):
        ray_cluster.heartbeat_addresses()


class Greedy(TSP):
    """Takes a gigabyte where there is less."""

    def step(self, instance, state, action):
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        limits = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (used + 2**28, limits[1]))
        try:
            torch.ones(2**30, dtype=torch.uint8)
        finally:
            resource.setrlimit(resource.RLIMIT_AS, limits)
        return super().step(instance, state, action)


@pytest.mark.parametrize("workers", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_memory_that_does_not_suffice_names_the_setting_to_lower(workers):
    with pytest.raises(WorkerError, match="^a search ran out of memory; lower search_batch_rows") as caught:
        found_by(Greedy(7), workers)
    assert len(str(caught.value).splitlines()) == 1


def test_one_instance_that_is_too_large_names_the_width():
    """Fewer rows at a time are no remedy."""
    one = TSP(7).generate(1, torch.Generator().manual_seed(0))
    with SearchPool(Greedy(7), network()) as pool, pytest.raises(WorkerError, match="lower search.beam_width [^\\n]*$"):
        list(pool.map(one, torch.arange(1), SEARCH))


# ---- what `auto` means


def test_workers():
    cpu = torch.device("cpu")
    assert resolve_workers("auto", cpu, 1) >= 1 and resolve_workers("auto", cpu, 10_000) == 1


def test_trainer_threads(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 6)
    monkeypatch.setattr("gumbeldore.parallel.devices.available_cores", lambda: 8)
    assert [resolve_threads("auto", processes) for processes in (1, 2, 3, 9)] == [6, 4, 2, 1]
    assert resolve_threads(3, 2) == 3


def test_chunk_rows():
    cpu = torch.device("cpu")
    assert resolve_rows("auto", cpu) == CPU_BATCH_ROWS < resolve_rows("auto", torch.device("cuda:0"))
    assert resolve_rows(7, cpu) == 7


def test_one_gpu_needs_no_actor(monkeypatch):
    gpu = torch.device("cuda")
    for gpus, joined, expected in ((1, False, 0), (2, False, 2), (1, True, 1)):
        monkeypatch.setattr(cluster, "gpus", lambda gpus=gpus: gpus)
        monkeypatch.setattr(cluster, "joined", lambda joined=joined: joined)
        assert resolve_workers("auto", gpu, 1) == expected
        assert resolve_workers("auto", torch.device("cuda:0"), 1) == 0
