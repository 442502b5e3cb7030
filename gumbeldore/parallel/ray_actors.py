"""Ray actors that share jobs; a job whose actor dies goes to another one."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import Any

from gumbeldore.parallel import ray_cluster
from gumbeldore.runtime.errors import InstanceError, WorkerError
from gumbeldore.runtime.stopping import Stop, Stopped, never

MAX_ATTEMPTS = 3  # at a job whose actors die: by then it is likely that the job kills them
START_TIMEOUT = 120  # seconds without a single living actor; a first start on a cold machine takes about 10
LATECOMERS = 15  # seconds after the first actor is prepared, in which the others may be, too
POLL_SECONDS = 0.5  # between two looks at `stop`


class Actor:
    """A process that makes one object, when its first job arrives at the latest, and lets it do all jobs."""

    def __init__(self) -> None:
        self.object: Any = None

    def prepare(self, recipe: list) -> None:
        """Make the object.

        Arguments:
            recipe: a reference to (class, arguments) of the object; Ray fetches the value only when it is asked for
        """
        import ray

        if self.object is None:
            kind, arguments = ray.get(recipe[0])
            self.object = kind(*arguments)

    def work(self, recipe: list, *job: Any) -> Any:
        """Do a job; `recipe` as above."""
        self.prepare(recipe)
        return self.object.work(*job)


class Actors:
    """Actors of one kind that share jobs. Ray restarts an actor that dies, where it finds room for it.

    Arguments:
        kind: a class whose method `work` does a job. A restarted actor remembers nothing: what a job needs comes with
            the constructor's arguments or with the job.
        count: number of actors
        advice: what a person can change if jobs kill actors
        options: of Ray, see `ray_cluster.placement`
    """

    def __init__(self, kind: type, arguments: tuple, count: int, advice: str, options: dict[str, Any]):
        import ray

        actor_class = ray.remote(max_restarts=-1, **options)(Actor)
        self.advice, self.heartbeat_addresses = advice, ray_cluster.heartbeat_addresses()
        self.recipe = self.store((kind, arguments))
        self.prepared = False
        self.alive: list[Any] = [actor_class.remote() for _ in range(count)]
        self.unconfirmed: dict[ray.ObjectRef, Any] = {}  # actors that may be dead or starting, by their heartbeat

    def store(self, value: Any) -> Any:
        """A reference to the value in Ray's object store, which keeps the value as long as the reference is kept."""
        import ray

        self._check_cluster()
        return ray.put(value)

    def prepare(self) -> None:
        """Wait once until the actors have made their objects, so that what is timed afterwards is the jobs alone.

        What goes wrong here goes wrong at the first job, which says so. Actors that find no room are not waited for.
        """
        import ray

        if self.prepared:
            return
        self.prepared = True
        self._check_cluster()
        _, late = ray.wait([actor.prepare.remote([self.recipe]) for actor in self.alive], timeout=START_TIMEOUT)
        if late:
            ray.wait(late, num_returns=len(late), timeout=LATECOMERS)

    def map(self, count: int, job: Callable[[int], tuple], stop: Stop = never) -> Iterator[tuple[int, Any]]:
        """Do jobs 0 to count - 1; yields (number, result) in the order in which the jobs finish.

        The arguments of a job are made when an actor has room for it, and a result leaves Ray's object store when it is
        yielded: the store holds two jobs per actor at most.

        Raises an InstanceError of a job, WorkerError if a job raises another error (with its text) or keeps killing its
        actors, or if no actor lives any more, and Stopped when `stop()` holds while waiting.
        """
        import ray

        todo = deque(range(count))
        deaths: Counter[int] = Counter()  # by job
        running: dict[ray.ObjectRef, tuple[Any, int]] = {}
        last_sign = time.monotonic()
        self._ask_for_heartbeats()
        while todo or running:
            self._check_cluster()
            while todo and (actor := self._with_room(running, len(todo))):
                number = todo.popleft()
                running[actor.work.remote([self.recipe], *job(number))] = actor, number
            done, _ = ray.wait([*running, *self.unconfirmed], timeout=POLL_SECONDS)
            if stop():
                raise Stopped
            self._check_cluster()
            if done or running:
                last_sign = time.monotonic()
            elif time.monotonic() - last_sign > START_TIMEOUT:
                rule = f"for {START_TIMEOUT} s no node had room for a worker; `ray status` shows the nodes"
                raise WorkerError(rule)
            for reference in done:
                if reference in self.unconfirmed:
                    self._confirm(reference)
                    continue
                actor, number = running.pop(reference)
                try:
                    result = _result_of(reference)
                except ray.exceptions.RayError as error:
                    if actor in self.alive:  # otherwise its death is known already
                        self._ask_for_heartbeats()
                    deaths[number] += 1
                    if deaths[number] == MAX_ATTEMPTS:
                        rule = f"{MAX_ATTEMPTS} workers died of the same work; {self.advice}"
                        raise WorkerError(f"{rule}\n{error}") from None
                    todo.appendleft(number)
                else:
                    yield number, result

    def close(self) -> None:
        """End the actors."""
        import ray

        for actor in [*self.alive, *self.unconfirmed.values()]:
            ray.kill(actor)
        self.alive, self.unconfirmed = [], {}

    def _with_room(self, running: dict, left: int) -> Any:
        """The least busy of the living actors; None if all are busy enough.

        A second job waits at an actor while the actor works on the first: so no actor waits for this process. But not
        before all actors have sent a heartbeat, or the first one would get two jobs. The last jobs go to the actors
        that are free first.
        """
        busy = Counter(actor for actor, _ in running.values())
        actor = min(self.alive, key=busy.__getitem__, default=None)
        most = 2 if left > len(self.alive) and not self.unconfirmed else 1
        return actor if busy[actor] < most else None

    def _ask_for_heartbeats(self) -> None:
        """Take no actor for alive before its heartbeat: where one actor died, its whole node may have died with it."""
        # Ray retries the question until there is an answer; a dead actor answers when it has been restarted.
        self.unconfirmed |= {actor.__ray_ready__.options(max_task_retries=-1).remote(): actor for actor in self.alive}
        self.alive = []

    def _confirm(self, heartbeat: Any) -> None:
        """The actor of this heartbeat is alive."""
        import ray

        actor = self.unconfirmed.pop(heartbeat)
        try:
            ray.get(heartbeat)
        except ray.exceptions.RayError as error:
            self._check_cluster()
            if not ray_cluster.own_node_lives():  # it answers a little longer when it ends with one of Ray's agents
                raise WorkerError(ray_cluster.GONE) from None
            # The error is one of the constructor; Ray retries after all others.
            raise WorkerError(f"a worker could not start: {error}") from None
        self.alive.append(actor)

    def _check_cluster(self) -> None:
        """Raises WorkerError if the cluster is gone; Ray would end this process silently at its next large object."""
        # A head that is busy may miss a call.
        if not all(any(ray_cluster.answers(address) for _ in range(3)) for address in self.heartbeat_addresses):
            raise WorkerError(ray_cluster.GONE)


def _result_of(reference: Any) -> Any:
    """The result of a finished job. Raises what the job raised, or Ray's error if its actor died."""
    import ray

    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, InstanceError):  # whoever knows the instance's name reports it
            raise error.cause from None
        told = isinstance(error.cause, WorkerError)
        raise WorkerError(error.cause if told else f"a worker failed: {error.cause!r}\n{error}") from None
