"""The Ray that workers live on: one of this machine alone, or a cluster that this process joins."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from gumbeldore.runtime.errors import WorkerError
from gumbeldore.runtime.hardware import available_cores

ADDRESS = re.compile(r"(?:ray://)?(?P<host>[^:/\s]+):(?P<port>\d+)")
SECONDS_TO_ANSWER = 5
GONE = "the Ray cluster does not answer any more"
START = "start one with `ray start --head`, or leave ray.address=null for a Ray of this machine"

_starting = threading.Lock()  # of two threads one waits for the other's Ray
_joined: str | None = None  # the address; one per process, as Ray's connection is


def start_ray(num_cpus: int) -> None:
    """A Ray of this machine, unless this process has one already; several pools share it and it ends with the process.

    Raises ValueError where Ray is not installed or cannot start.
    """
    ray = _ray(f"workers={num_cpus}", "use workers=0")
    cpus = max(num_cpus, available_cores())
    options = {"num_cpus": cpus, "include_dashboard": False, "log_to_driver": False, "logging_level": "error"}
    try:
        with _starting, _own_signal_handlers():
            if not ray.is_initialized():
                _in_lasting_thread(lambda: ray.init(address="local", **options))
    except Exception as error:  # whatever it lacks: a home folder, a short path for its sockets, memory, ...
        why = " ".join(str(error).split()) or type(error).__name__
        rule = "workers=0 works without it, and for solvers in an evaluation solver.workers=0"
        raise ValueError(f"Ray cannot start because of this: {why:.300}; {rule}") from None


def _in_lasting_thread(work: Callable[[], Any]) -> None:
    """Do it in a thread that lasts as long as the process: on Linux, Ray's processes end with the one that starts them.

    Raises what the work raises.
    """
    if threading.current_thread() is threading.main_thread():
        work()
        return
    done: Future = Future()

    def last() -> None:
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)
        else:
            threading.Event().wait()

    threading.Thread(target=last, daemon=True).start()
    done.result()


@contextlib.contextmanager
def _own_signal_handlers() -> Iterator[None]:
    """Keep this process's handler of a termination signal, which Ray replaces by one that aborts."""
    handler = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if callable(handler) and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)


def join(address: str, modules: list[ModuleType]) -> None:
    """Connect this process to a cluster for as long as it lives, and send the cluster these modules.

    Arguments:
        address: host:port or ray://host:port of its head, or auto: the one that RAY_ADDRESS names, or that `ray start`
            has made this machine a node of
        modules: packages or single files; Ray sends them to every node that works for this process

    Raises ValueError if there is no such cluster, or it is not one for this process.
    """
    global _joined
    if address == _joined:  # by an earlier run of a sweep
        return
    place = ADDRESS.fullmatch(address)
    if address != "auto" and place is None:
        raise ValueError(f"ray.address must be null, auto, host:port or ray://host:port, got {address}")
    ray = _ray(f"ray.address={address}", "leave ray.address=null")
    there = address if place else _of_this_machine()
    if not there:
        raise ValueError(f"ray.address=auto: `ray start` has started none on this machine; {START}")
    if not answers(there):  # Ray would try for minutes
        at = "there" if place else f"at {there}"
        raise ValueError(f"ray.address={address}: no Ray cluster answers {at}; {START}")
    try:
        ray.init(
            address=address,
            runtime_env={"py_modules": [_source(module) for module in modules]},
            log_to_driver=False,
            logging_level="error",
        )
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise ValueError(f"ray.address={address}: {' '.join(str(error).split())}; {START}") from None
    _joined = address


def _of_this_machine() -> str | None:
    """The address of the cluster that RAY_ADDRESS names, or that `ray start` has made this machine a node of last.

    Without either, Ray's own `auto` would take any that runs here: that of another run, which ends with the run.
    """
    named = os.environ.get("RAY_ADDRESS")
    if named and named != "auto":
        return named
    folder = os.environ.get("TMPDIR", "/tmp") if sys.platform == "linux" else "/tmp"
    # `ray.init` documents the file; its `auto` would go on to search the machine's processes.
    started = Path(os.environ.get("RAY_TMPDIR", folder), "ray", "ray_current_cluster")
    return started.read_text().strip() if started.is_file() else None


def joined() -> bool:
    """Whether this process works on a cluster that was there before it."""
    return _joined is not None


def room(threads: int) -> int:
    """How many workers of `threads` threads the CPUs can hold: those of the cluster, or those this process may use.

    Raises ValueError if no node of the cluster has room for any.
    """
    if not joined():
        return max(1, available_cores() // threads)
    return _needed(sum(cpus // threads for cpus in _on_nodes("CPU")), f"{threads} CPUs")


def gpus() -> int:
    """How many GPUs the cluster or this machine has. Raises ValueError if no node of the cluster has one."""
    return _needed(sum(_on_nodes("GPU")), "a GPU") if joined() else torch.cuda.device_count()


def placement(threads: int, gpus: float = 0) -> dict[str, Any]:
    """Options of an actor. A cluster places it where it has room; on one machine there are as many as asked for."""
    if not joined():
        return {"num_cpus": 0, "num_gpus": gpus}
    return {"num_cpus": threads, "num_gpus": gpus, "scheduling_strategy": "SPREAD"}


def heartbeat_addresses() -> list[str]:
    """The addresses of the head and of this process's node, which answer as long as this process has its Ray.

    Raises WorkerError if the head does not answer any more.
    """
    import ray

    if _joined and _joined.startswith("ray://"):
        return [_joined]
    head = ray.get_runtime_context().gcs_address
    if not answers(head):  # Ray would wait for it
        raise WorkerError(GONE)
    here = _own_node()
    return [head, f"{here['NodeManagerAddress']}:{here['NodeManagerPort']}"]


def own_node_lives() -> bool:
    """Whether the head takes this process's node for alive."""
    return bool(_joined and _joined.startswith("ray://")) or _own_node()["Alive"]


def _own_node() -> dict[str, Any]:
    """What the head knows about this process's node."""
    import ray

    here = ray.get_runtime_context().get_node_id()
    return next(node for node in ray.nodes() if node["NodeID"] == here)


def answers(address: str) -> bool:
    """Whether a server speaks there, as Ray's do. The system still connects to a process that is about to be dead."""
    place = ADDRESS.fullmatch(address)
    if place is None:
        return False
    try:
        with socket.create_connection((place["host"], int(place["port"])), SECONDS_TO_ANSWER) as connection:
            return bool(connection.recv(1))  # gRPC speaks first
    except (OSError, OverflowError):  # the latter for a port that cannot be
        return False


def _ray(wanted: str, instead: str) -> ModuleType:
    try:
        import ray
    except ImportError:
        raise ValueError(f"{wanted} needs the package ray; install it or {instead}") from None
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # its default only earns a warning
    os.environ.setdefault("RAY_worker_niceness", "0")  # with Ray's 15, workers get no time beside other processes
    # A process whose cluster is gone is to say so itself; Ray would end it after a minute.
    os.environ.setdefault("RAY_gcs_rpc_server_reconnect_timeout_s", str(10**6))
    return ray


def _on_nodes(resource: str) -> list[int]:
    import ray

    return [int(node["Resources"].get(resource, 0)) for node in ray.nodes() if node["Alive"]]


def _needed(count: int, what: str) -> int:
    if not count:
        raise ValueError(f"no node of the Ray cluster has {what}, as each worker needs")
    return count


def _source(module: ModuleType) -> str:
    """The folder of a package, or the file of a module."""
    places = list(module.__spec__.submodule_search_locations or []) if module.__spec__ else []
    return str(Path(places[0] if places else str(module.__file__)).resolve())
