"""A Ray cluster of two nodes on this machine.

`python -m tests.helpers.clusters` starts it, prints its address, and obeys.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
CORES = 1  # of each node


class TwoNodes:
    """The cluster as a test sees it, in processes of its own.

    `say` takes one of: remove (the second node, at once), stop (the head with all that is on it).
    """

    def __enter__(self) -> TwoNodes:
        command = [sys.executable, "-m", "tests.helpers.clusters"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        # Without the path of our modules, which have to reach the nodes by themselves.
        env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        self.process = subprocess.Popen(command, cwd=ROOT, text=True, env=env, **pipes)
        self.address = self._heard("address")
        return self

    def say(self, word: str) -> None:
        print(word, file=self.process.stdin, flush=True)
        self._heard("done")

    def _heard(self, word: str) -> str:
        for line in self.process.stdout:
            if line.startswith(word):
                return line.removeprefix(word).strip()
        raise AssertionError(f"the cluster never said {word}")

    def __exit__(self, *_) -> None:
        self.process.communicate()


def main() -> None:
    from ray.cluster_utils import Cluster

    os.chdir("/")  # nor by the folder they are in
    store = {"num_cpus": CORES, "object_store_memory": 10**8}
    cluster = Cluster(initialize_head=True, head_node_args={"include_dashboard": False, **store})
    second = cluster.add_node(**store)
    print("address", cluster.address, flush=True)
    for line in sys.stdin:
        if line.strip() == "remove":
            cluster.remove_node(second, allow_graceful=False)
        else:
            cluster.head_node.kill_all_processes(check_alive=False, allow_graceful=False)
        print("done", flush=True)
    cluster.shutdown()


if __name__ == "__main__":
    main()
