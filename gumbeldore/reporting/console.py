"""What a person sees of a run: progress with rate and time left, a line per epoch, a table at the end."""

from __future__ import annotations

import contextlib
import math
import shlex
import threading
import time
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from gumbeldore.evaluation.tables import notices, percentage
from gumbeldore.instance_set import InstanceSet, count_of
from gumbeldore.runtime.program import as_called
from gumbeldore.runtime.run_directory import RunDirectory
from gumbeldore.training.report import EpochReport
from gumbeldore.training.state import TrainState

MOST_NOTICES = 10  # lines
SECONDS_BETWEEN_LINES = 30  # about progress, at most, where no terminal shows bars


class Rate(ProgressColumn):
    """Steps per second."""

    def render(self, task) -> Text:
        return Text(f"{task.speed:.1f}/s" if task.speed else "", style="dim")


class Terminal:
    """Progress bars on a terminal; where the output is a file, a line after every half minute without any."""

    def __init__(self) -> None:
        self.console = Console(highlight=False, soft_wrap=True)
        shows_bars = self.console.is_terminal and not self.console.is_dumb_terminal
        columns = (
            TextColumn("{task.description:>12}"),
            BarColumn(),
            MofNCompleteColumn(),
            Rate(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[best]}", style="dim"),
        )
        self.bars = Progress(*columns, console=self.console, transient=True, disable=not shows_bars)
        self.task = self.bars.add_task("", total=None, visible=False, best="")
        self.phase, self.before = "", 0  # of the steps, those that were done when the phase began
        self.spoken_at = time.monotonic()
        self.ended = threading.Event()
        self.clock = None if shows_bars else threading.Thread(target=self._speak_in_time, daemon=True)

    def __enter__(self) -> Terminal:
        self.bars.start()
        if self.clock:
            self.clock.start()
        return self

    def __exit__(self, *_) -> None:
        self.ended.set()
        if self.clock:
            self.clock.join()
        self.bars.stop()

    def progress(self, phase: str, done: int, total: int) -> None:
        """Show how far a phase has come."""
        if phase != self.phase or done == 0:
            self.bars.reset(self.task, description=phase, total=total, completed=done, visible=True)
            self.phase, self.before = phase, done
        self.bars.update(self.task, completed=done)

    def advancing(self, phase: str, instance_sets: list[InstanceSet], done: int = 0) -> Callable[[int], None]:
        """Show that a phase begins; returns what is to be called with the number of instances done since the last call.

        Arguments:
            done: instances done before the first call
        """
        count = count_of(instance_sets)
        self.progress(phase, done, count)

        def advance(instances: int) -> None:
            nonlocal done
            done += instances
            self.progress(phase, done, count)

        return advance

    def notices(self, instance_sets: list[InstanceSet]) -> None:
        """What is left out and why, and other surprises, the first of them."""
        lines = notices(instance_sets)
        for line in lines[:MOST_NOTICES]:
            self.say(line)
        if len(lines) > MOST_NOTICES:
            self.say(f"and {len(lines) - MOST_NOTICES} more such lines, {len(lines)} in all")

    @contextlib.contextmanager
    def sparing(self, what: object) -> Iterator[None]:
        """An error while `what` is written is a warning: the results, which took long to compute, are worth more."""
        try:
            yield
        except Exception as error:  # of the system, of matplotlib, of a problem's own pictures
            self.say(f"warning: {what} is not written: {' '.join(str(error).split()) or type(error).__name__}")

    def say(self, text: str) -> None:
        self.spoken_at = time.monotonic()
        self.console.print(text, markup=False)

    def _speak_in_time(self) -> None:
        """Say how far the phase has come whenever nothing else has been said for long; runs in a thread of its own."""
        while not self.ended.wait(max(0.0, self.spoken_at + SECONDS_BETWEEN_LINES - time.monotonic())):
            if time.monotonic() >= self.spoken_at + SECONDS_BETWEEN_LINES:
                task = self.bars.tasks[0]
                numbers = int(task.completed), task.total, task.elapsed or 0.0
                self.say(progress_line(self.phase or "starting", *numbers, self.before))

    def epoch(self, report: EpochReport, epochs: int) -> None:
        """One line about a finished epoch; the best policy so far stays beside the progress bar."""
        m = report.metrics
        given = "quality/greedy_cost" not in m  # instances (active search)
        best = "best" if given else "best greedy"
        self.bars.update(self.task, best=_quality(m, best))
        sampling = f"  {m['sampling/new_best']:,} better solutions" if "sampling/new_best" in m else ""
        if "sampling/improvement_over_greedy" in m:
            better = m["sampling/improvement_over_greedy"]
            sampling = f"  best sampled {abs(better):.1%} {'below' if better >= 0 else 'above'} greedy"
        if "sampling/solutions" in m:
            sampling += f"  {m['sampling/solutions_per_second']:,.0f} solutions/s"
        self.say(
            f"epoch {report.epoch:>{len(str(epochs))}}/{epochs}  {_quality(m, 'best' if given else 'greedy')}"
            f"{' *' if report.improved else '  '} loss {m['training/loss']:.4f}{sampling}"
            f"  {m['usage/totals/seconds']:,.0f} s"
        )

    def time_left(self, report: EpochReport, epochs: int, limit: float, growing: bool) -> None:
        """One line about how long the epochs after this one will take.

        Arguments:
            limit: seconds until the run's time limit
            growing: whether later epochs sample larger instances
        """
        others = epochs - report.epoch
        seconds = others * report.metrics["usage/epoch_seconds"]
        text = f"about {duration(seconds)} for the other {f'{others} epochs' if others > 1 else 'epoch'}"
        text += f", at the pace of epoch {report.epoch}"
        text += "; later instances are larger and take longer" if growing else ""
        text += f"; time_limit ends the training earlier, in {duration(limit)}" if limit < seconds else ""
        self.say(text)

    def summary(
        self, train_state: TrainState, reason: str | None, directory: RunDirectory, instances: str | None
    ) -> None:
        """What came out, where it is, and what to do next.

        Arguments:
            instances: the given ones of active search; None: random ones
        """
        rows = [["epochs", str(train_state.epoch)], ["training time", f"{train_state.totals['seconds']:,.0f} s"]]
        rows += [
            ["solutions sampled", f"{train_state.totals['solutions']:,}"],
            ["batches", f"{train_state.totals['batches']:,}"],
        ]
        what = "mean cost of the best solutions" if instances else "best greedy cost (validation)"
        if math.isfinite(train_state.best_cost):
            rows += [[what, f"{train_state.best_cost:.4f}"]]
        if not math.isnan(train_state.best_gap):
            rows += [["its gap to the reference", percentage(train_state.best_gap)]]
        self.table(reason or "finished", ["", ""], rows)
        trained = shlex.quote(f"checkpoint={directory.path}")
        self.say(as_called(f"evaluate:    python evaluate.py {trained} instances=<set, file or folder>"))
        runs = "runs" if directory.path.is_relative_to("runs") else directory.path  # a folder of runs shows their names
        self.say(f"dashboards:  tensorboard --logdir {shlex.quote(str(runs))}")
        if reason:
            resume = shlex.quote(f"resume={directory.path}")
            again = f"  # from the beginning of epoch {train_state.epoch + 1}"
            self.say(as_called(f"continue:    python train.py {resume} time_limit=null{again}"))

    def table(self, title: str, header: list[str], rows: list[list[str]], notes: str = "") -> None:
        """A table with its first column to the left and figures to the right."""
        table = Table(*header, title=title, caption=notes, title_justify="left", caption_justify="left")
        table.show_header = any(header)
        table.columns[0].no_wrap = True  # names in full, also where 80 columns make figures wrap
        for column in table.columns[1:]:
            column.justify = "right"
        for row in rows:
            table.add_row(*row)
        self.console.print(table)


def _quality(metrics: dict[str, float], what: str) -> str:
    """Cost and gap of the metrics quality/<what>_cost and _gap, in words."""
    tag = what.replace(" ", "_")
    gap = metrics.get(f"quality/{tag}_gap")
    return f"{what} {metrics[f'quality/{tag}_cost']:.4f}" + ("" if gap is None else f" gap {gap:7.2%}")


def progress_line(phase: str, done: int, total: float | None, seconds: float, before: int = 0) -> str:
    """How far a phase has come in so many seconds, its rate and the time that is left; `before` was done at first."""
    if not total:
        return phase
    line = f"{phase}: {done:,} of {total:,.0f}"
    if not before < done < total or not seconds:
        return line
    rate = (done - before) / seconds
    return f"{line}, {rate:.3g}/s, about {duration((total - done) / rate)} left"


def duration(seconds: float) -> str:
    """A time in words, in the largest unit of which there are two at least."""
    units = {"day": 24 * 3600, "hour": 3600, "minute": 60, "second": 1}
    unit, size = next(((unit, size) for unit, size in units.items() if seconds >= 2 * size), ("second", 1))
    count = max(1, round(seconds / size))
    return f"{count} {unit}{'s' if count > 1 else ''}"
