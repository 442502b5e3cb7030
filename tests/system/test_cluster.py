"""Ray clusters: two nodes find what one process finds; which cluster an address means, and one that leads nowhere."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from types import SimpleNamespace

import pytest
import torch

from gumbeldore.cli.setup import set_up
from gumbeldore.parallel import ray_cluster as cluster
from gumbeldore.runtime import checkpoint
from gumbeldore.training.dataset import read_shard
from problems.tsp.instances import Instance
from tests.helpers.clusters import TwoNodes
from tests.helpers.commands import ROOT, configured

pytestmark = pytest.mark.slow

MINE = """
import os
from pathlib import Path
import gumbeldore
import ray
from problems.tsp import TSP

class Mine(TSP):
    def __init__(self, folder):
        super().__init__(7)
        self.folder, self.caller = Path(folder), os.getpid()

    def step(self, instance, state, action):
        file = self.folder / str(os.getpid())
        if os.getpid() != self.caller and not file.exists():
            where = ray.get_runtime_context().get_node_id(), __file__, gumbeldore.__file__
            file.with_suffix(".new").write_text("|".join(where))
            file.with_suffix(".new").rename(file)
        return super().step(instance, state, action)
"""

CALLER = """
import sys, torch
from importlib import import_module
address, folder, elsewhere = sys.argv[1:]
sys.path.append(elsewhere)
import mine
from gumbeldore import methods
from gumbeldore.parallel import ray_cluster
from gumbeldore.parallel.pool import SearchPool
from gumbeldore.parallel.devices import resolve_workers
from models.bq_tsp import BQ

torch.manual_seed(0)
problem = mine.Mine(folder)
policy = BQ(width=16, layers=1, heads=2, feedforward=32, canonical_coordinates=False, successor_loss=0)
ray_cluster.join(address, [import_module(name) for name in ("gumbeldore", "models", "problems", "mine")])
instances, keys = problem.generate(200, torch.Generator().manual_seed(0)), torch.arange(200)

def found_by(workers, told=lambda: None):
    with SearchPool(problem, policy, workers, search_batch_rows=8) as pool:
        parts = []
        for part in pool.map(instances, keys, methods.Gumbeldore(4, 2, 0.3)):
            parts.append(part)
            told()
    parts.sort(key=lambda part: part[0].start)
    assert [chunk.start for chunk, _ in parts] == list(range(0, 200, 2))
    return [torch.cat([getattr(found, field) for _, found in parts]) for field in ("actions", "costs")]

workers = resolve_workers("auto", torch.device("cpu"), 1)
there, here = found_by(workers, lambda: print("chunk", flush=True)), found_by(0)
print("workers", workers, "same", all(torch.equal(a, b) for a, b in zip(there, here)))
"""


@pytest.mark.parametrize("removed", [False, True])
def test_two_nodes_find_what_one_process_finds(removed, tmp_path):
    for name in ("elsewhere", "seen"):
        (tmp_path / name).mkdir()
    (tmp_path / "elsewhere/mine.py").write_text(MINE)
    with TwoNodes() as nodes:
        command = [sys.executable, "-c", CALLER, nodes.address, str(tmp_path / "seen"), str(tmp_path / "elsewhere")]
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        with subprocess.Popen(command, cwd="/", env=env, stdout=subprocess.PIPE, text=True) as caller:
            said = []
            for line in caller.stdout:
                said.append(line.split())
                seen = [file.read_text().split("|") for file in (tmp_path / "seen").glob("*[0-9]")]
                if removed and len(seen) == 2:  # both are at work
                    nodes.say("remove")
                    removed = False
    # Among its lines, not the last of them: Ray tells of the node it lost when it likes.
    assert not removed and caller.returncode == 0 and ["workers", "2", "same", "True"] in said
    assert len({node for node, _, _ in seen}) == 2
    assert all("py_modules" in file for _, *files in seen for file in files)


SIZES = ["problem.num_nodes=7", "problem.grow=null", "debug=fast", "train.epochs=6", "images_every=100"]
SIZES += ["train.batches_per_epoch=200"]


def training(folder, *words):
    command = [sys.executable, str(ROOT / "train.py"), *words]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def trained(folder, *words):
    with training(folder, *words) as process:
        out, err = process.communicate()
    assert process.returncode == 0, out + err


def weights(run):
    return checkpoint.load(run / "checkpoints/last.pt")["train_state"]["policy"]


def same(some, others):
    return some.keys() == others.keys() and all(torch.equal(some[name], others[name]) for name in some)


def test_training_on_a_cluster_ends_with_the_same_weights_also_when_the_cluster_goes(tmp_path):
    trained(tmp_path, *SIZES, "run_dir=alone")
    with TwoNodes() as nodes:
        there = ["workers=2", f"ray.address={nodes.address}"]
        trained(tmp_path, *SIZES, *there, "run_dir=there")
        with training(tmp_path, *SIZES, *there, "run_dir=broken") as broken:
            while not (tmp_path / "broken/metrics.jsonl").exists():
                assert broken.poll() is None
            time.sleep(0.5)  # until it imitates: Ray ends a process without a word that stores an object just then
            nodes.say("stop")
            error = broken.communicate()[1].splitlines()
    assert same(weights(tmp_path / "alone"), weights(tmp_path / "there"))
    assert broken.returncode == 2, "\n".join(error)
    assert error[-1] == (
        "error: the Ray cluster does not answer any more; "
        "broken/checkpoints/last.pt is intact, resume=broken goes on from it"
    )
    assert not same(weights(tmp_path / "alone"), weights(tmp_path / "broken"))
    trained(tmp_path, "resume=broken", "workers=0", "ray.address=null")
    assert same(weights(tmp_path / "alone"), weights(tmp_path / "broken"))


def test_evaluation_and_solvers_work_on_a_cluster_too(tmp_path):
    pytest.importorskip("pyvrp")  # which needs Python 3.11

    def run(*words):
        env = {**os.environ, "GUMBELDORE_CACHE": str(tmp_path / "cache")}
        done = subprocess.run([sys.executable, *words], cwd=ROOT, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr

    words = [f"checkpoint={ROOT / 'pretrained/tsp20'}", "instances=kool/tsp20", "num_instances=40"]
    words += ["method=[greedy,gumbeldore]", "search.beam_width=8", "search.num_rounds=2", "search_batch_rows=32"]
    run("evaluate.py", *words, "workers=0", f"out_dir={tmp_path / 'alone'}")
    with TwoNodes() as nodes:
        run("evaluate.py", *words, f"ray.address={nodes.address}", f"out_dir={tmp_path / 'there'}")
        experts = [f"out={tmp_path / 'experts.npz'}", "num_instances=4", "time_limit=1"]
        run("-m", "problems.solvers", "problem=tsp", *experts, f"ray.address={nodes.address}")
    assert json.loads((tmp_path / "there/results.json").read_text())["hardware"].endswith("2 workers")
    assert (tmp_path / "there/results.csv").read_text() == (tmp_path / "alone/results.csv").read_text()
    assert len(read_shard(tmp_path / "experts.npz", Instance).actions) == 4


# ---- addresses


def test_the_runs_of_a_sweep_share_their_cluster(monkeypatch):
    monkeypatch.setattr(cluster, "_joined", "auto")
    asked = []
    monkeypatch.setattr(cluster, "_ray", lambda *words: asked.append(words))
    cluster.join("auto", [])
    assert cluster.joined() and not asked  # Ray refuses a second connection


@contextmanager
def listening(reply):
    """The address of a server that does this with each connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            with suppress(OSError):  # closed
                while True:
                    connection, _ = server.accept()
                    with connection:
                        reply(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_who_connects_but_says_nothing_does_not_answer(monkeypatch):
    """As a process that is being killed, for which the system connects."""
    monkeypatch.setattr(cluster, "SECONDS_TO_ANSWER", 0.2)
    for reply, answer in (
        (lambda connection: connection.send(b"settings"), True),
        (lambda connection: connection.recv(1), False),
        (lambda connection: None, False),
    ):
        with listening(reply) as address:
            assert cluster.answers(address) == answer


@pytest.mark.parametrize("variable", ["RAY_TMPDIR", "TMPDIR"])
def test_auto_is_what_ray_start_has_started_and_no_ray_of_another_run(variable, monkeypatch, tmp_path):
    (tmp_path / "ray").mkdir()
    for name in ("RAY_TMPDIR", "RAY_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(cluster.sys, "platform", "linux")
    monkeypatch.setenv(variable, str(tmp_path))
    monkeypatch.setattr(cluster, "_joined", None)
    asked = []
    fake = SimpleNamespace(init=lambda address, **options: asked.append(address))
    monkeypatch.setattr(cluster, "_ray", lambda *words: fake)
    with pytest.raises(ValueError, match="ray.address=auto: `ray start` has started none on this machine; start one"):
        cluster.join("auto", [])
    started = tmp_path / "ray/ray_current_cluster"  # where `ray start` leaves its address
    started.write_text("127.0.0.1:9")  # and has ended
    with pytest.raises(ValueError, match="ray.address=auto: no Ray cluster answers at 127.0.0.1:9; start one"):
        cluster.join("auto", [])
    with listening(lambda connection: connection.send(b"settings")) as address:
        monkeypatch.setenv("RAY_ADDRESS", address)
        cluster.join("auto", [])
        monkeypatch.setattr(cluster, "_joined", None)
        monkeypatch.setenv("RAY_ADDRESS", "auto")
        started.write_text(f"{address}\n")
        cluster.join("auto", [])
    assert asked == ["auto", "auto"]  # which Ray understands the same way


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["ray.address=nonsense"], "ray.address must be null, auto, host:port or ray://host:port, got nonsense"),
        (["ray.address=http://localhost:1"], "ray.address must be null"),
        (["ray.address=127.0.0.1:9"], "ray.address=127.0.0.1:9: no Ray cluster answers there; start one with"),
        (["ray.address=ray://127.0.0.1:9"], "ray.address=ray://127.0.0.1:9: no Ray cluster answers there"),
        (["ray.address=127.0.0.1:99999"], "ray.address=127.0.0.1:99999: no Ray cluster answers there"),
        (["ray.address=auto", "workers=0"], "ray.address=auto has no effect with workers=0"),
    ],
)
def test_addresses_that_lead_nowhere_are_one_line(words, message):
    with pytest.raises(ValueError, match=message) as caught:
        set_up(configured("train", *words))
    assert len(str(caught.value).splitlines()) == 1
