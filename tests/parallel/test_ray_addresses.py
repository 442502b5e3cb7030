"""Which Ray cluster an address means, and what is said of one that leads nowhere."""

from __future__ import annotations

import socket
from types import SimpleNamespace

import pytest

from gumbeldore.cli.setup import set_up
from gumbeldore.parallel import ray_cluster as cluster
from tests.helpers.commands import configured

pytestmark = pytest.mark.slow


def test_the_runs_of_a_sweep_share_their_cluster(monkeypatch):
    monkeypatch.setattr(cluster, "_joined", "auto")
    asked = []
    monkeypatch.setattr(cluster, "_ray", lambda *words: asked.append(words))
    cluster.join("auto", [])
    assert cluster.joined() and not asked  # Ray refuses a second connection


def test_auto_is_what_ray_start_has_started_and_no_ray_of_another_run(monkeypatch, tmp_path):
    from ray._private import services

    (tmp_path / "ray").mkdir()
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(cluster, "_joined", None)
    asked, running = [], {"127.0.0.1:7"}  # of another run
    fake = SimpleNamespace(init=lambda address, **options: asked.append(address))
    monkeypatch.setattr(services, "find_gcs_addresses", lambda: running)
    monkeypatch.setattr(cluster, "_ray", lambda *words: fake)
    with pytest.raises(ValueError, match="ray.address=auto: `ray start` has started none on this machine; start one"):
        cluster.join("auto", [])
    started = tmp_path / "ray/ray_current_cluster"  # where `ray start` leaves its address
    started.write_text("127.0.0.1:9")
    with pytest.raises(ValueError, match="`ray start` has started none"):  # that has ended
        cluster.join("auto", [])
    running.add("127.0.0.1:9")
    with pytest.raises(ValueError, match="ray.address=auto: no Ray cluster answers at 127.0.0.1:9; start one"):
        cluster.join("auto", [])
    with socket.create_server(("127.0.0.1", 0)) as head:
        address = f"127.0.0.1:{head.getsockname()[1]}"
        monkeypatch.setenv("RAY_ADDRESS", address)
        cluster.join("auto", [])
        monkeypatch.setattr(cluster, "_joined", None)
        monkeypatch.setenv("RAY_ADDRESS", "auto")
        started.write_text(address)
        running.add(address)
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
