"""Ray actors that share out jobs, and outlive the death of some of them."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import Any

from gumbeldore.parallel import ray_cluster
from gumbeldore.runtime.errors import InstanceError
from gumbeldore.runtime.stopping import Stop, Stopped

TRIES = 3  # of a job whose actors die: then it is likely that the job kills them
PATIENCE = 120  # seconds without a single living actor; a first start on a cold machine takes about 10
GLANCE = 0.5  # seconds between two looks at `stop`


class WorkerError(RuntimeError):
    """A worker failed; the message holds its error."""


class Actor:
    """One object of a kind, in a process of its own. It is made for the first job, with which its recipe comes."""

    def __init__(self) -> None:
        self.one: Any = None

    def work(self, recipe: list, *job: Any) -> Any:
        """`recipe` holds a reference, of which Ray fetches the value only when asked."""
        import ray

        if self.one is None:
            kind, arguments = ray.get(recipe[0])
            self.one = kind(*arguments)
        return self.one.work(*job)


class Actors:
    """So many actors of a kind. Ray starts one that dies anew, where it finds room; its jobs go to any of them.

    Arguments:
        kind: a class whose method `work` does a job; what it needs for that comes with the constructor's arguments or
            with the job, because an actor that was started anew remembers nothing
        advice: what a person can change if jobs kill actors
        options: of Ray, see `ray_cluster.placement`
    """

    def __init__(self, kind: type, arguments: tuple, count: int, advice: str, options: dict[str, Any]):
        import ray

        actor_class = ray.remote(max_restarts=-1, **options)(Actor)
        self.advice, self.pulse = advice, ray_cluster.pulse()
        self.recipe = self.store((kind, arguments))
        self.living = [actor_class.remote() for _ in range(count)]
        self.unsure: dict[ray.ObjectRef, Any] = {}  # actors that may be dead or starting, by their sign of life

    def store(self, value: Any) -> Any:
        """A reference to the value in Ray's object store, which keeps it as long as the reference is kept."""
        import ray

        self._check_cluster()
        return ray.put(value)

    def map(self, count: int, job: Callable[[int], tuple], stop: Stop = lambda: False) -> Iterator[tuple[int, Any]]:
        """Do jobs 0 to count - 1; yields (its number, its result) in the order they finish.

        A job's arguments are made when there is an actor with room for it, and its result is gone from Ray's object
        store when it is yielded: the store holds two jobs per actor at most.

        Raises an InstanceError of a job, WorkerError if it raises another error (with its text) or keeps killing its
        actors, or if there is no living actor any more, and Stopped when `stop()` holds while waiting.
        """
        import ray

        todo, deaths = deque(range(count)), Counter()
        running: dict[ray.ObjectRef, tuple[Any, int]] = {}
        last_sign = time.monotonic()
        self._doubt_all()
        while todo or running:
            self._check_cluster()
            while todo and (actor := self._with_room(running, len(todo))):
                number = todo.popleft()
                running[actor.work.remote([self.recipe], *job(number))] = actor, number
            done, _ = ray.wait([*running, *self.unsure], timeout=GLANCE)
            if stop():
                raise Stopped
            self._check_cluster()
            if done or running:
                last_sign = time.monotonic()
            elif time.monotonic() - last_sign > PATIENCE:
                raise WorkerError(f"for {PATIENCE} s no node had room for a worker; `ray status` shows the nodes")
            for reference in done:
                if reference in self.unsure:
                    self._lives(reference)
                    continue
                actor, number = running.pop(reference)
                try:
                    result = ray.get(reference)
                except ray.exceptions.RayTaskError as error:
                    if isinstance(error.cause, InstanceError):  # whoever knows the instance's name reports it
                        raise error.cause from None
                    told = isinstance(error.cause, WorkerError)
                    raise WorkerError(error.cause if told else f"a worker failed: {error.cause!r}\n{error}") from None
                except ray.exceptions.RayError as error:
                    if actor in self.living:  # or its death is known already
                        self._doubt_all()
                    deaths[number] += 1
                    if deaths[number] == TRIES:
                        raise WorkerError(f"{TRIES} workers died of the same work; {self.advice}\n{error}") from None
                    todo.appendleft(number)
                else:
                    yield number, result

    def close(self) -> None:
        """End the actors."""
        import ray

        for actor in [*self.living, *self.unsure.values()]:
            ray.kill(actor)
        self.living, self.unsure = [], {}

    def _with_room(self, running: dict, left: int) -> Any:
        """The least busy living actor, unless it is busy enough.

        A second job waits at an actor while it works on the first, so that it need not wait for this process; but not
        before all have given a sign of life, or the first to do so would get two. The last jobs go to those that are
        free first.
        """
        busy = Counter(actor for actor, _ in running.values())
        actor = min(self.living, key=busy.__getitem__, default=None)
        most = 2 if left > len(self.living) and not self.unsure else 1
        return actor if busy[actor] < most else None

    def _doubt_all(self) -> None:
        """Wait for a sign of life: where one actor died its whole node may have, and the others' jobs be lost, too."""
        # Ray retries it until there is one: of an actor that has died, when it is started anew.
        self.unsure |= {actor.__ray_ready__.options(max_task_retries=-1).remote(): actor for actor in self.living}
        self.living = []

    def _lives(self, sign: Any) -> None:
        import ray

        actor = self.unsure.pop(sign)
        try:
            ray.get(sign)
        except ray.exceptions.RayError as error:  # its constructor's; Ray tries again after all others
            raise WorkerError(f"a worker could not start: {error}") from None
        self.living.append(actor)

    def _check_cluster(self) -> None:
        """Raises WorkerError if it is gone; Ray would end this process without a word, at its next big object."""
        if not all(ray_cluster.answers(address) for address in self.pulse):
            raise WorkerError("the Ray cluster does not answer any more")
