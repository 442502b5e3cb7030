"""Evaluation: `python evaluate.py checkpoint=<run directory> instances=kool/tsp20`; `--help` lists what can be set."""

from __future__ import annotations

import csv
import io
import json
import shlex
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf
from torch import Tensor

from configs import command
from gumbeldore import checkpoint
from gumbeldore.evaluation import Outcome, Solved, gaps, solve, summarise
from gumbeldore.files import replacing
from gumbeldore.interfaces import Benchmark, Problem
from gumbeldore.memory import keep_freed_memory
from gumbeldore.precision import resolve_precision
from gumbeldore.settings import EvaluationSettings
from gumbeldore.terminal import Terminal, hardware
from gumbeldore.workers import SearchPool, resolve_device, resolve_workers


def evaluate(cfg: DictConfig) -> dict[str, Outcome]:
    """Solve the instances with every method asked for; prints a table, writes results.json and results.csv."""
    run = EvaluationSettings(**{key: value for key, value in cfg.items() if not OmegaConf.is_config(value)})
    device = resolve_device(run.device)
    precision = resolve_precision(run.precision, device)
    keep_freed_memory()
    path = checkpoint.find(Path(run.checkpoint))
    saved = checkpoint.load(path)
    problem = command.build(saved["config"]["problem"], "problem", "reset", "step", "mask", "cost", "load")
    policy = command.build(saved["config"]["model"], "model", "encode", "forward")
    policy.load_state_dict(saved["weights"])
    if cfg.search.step_size is None:
        cfg.search.step_size = saved["config"]["search"]["step_size"]
    if HydraConfig.initialized():
        command.check_effect(cfg, HydraConfig.get().overrides.task)
    methods = command.build_methods(cfg)
    benchmarks = problem.load(run.instances, run.num_instances)
    out_dir = new_directory(run.out_dir)

    count = sum(len(benchmark.names) for benchmark in benchmarks)
    workers = resolve_workers(run.workers, device, run.worker_threads)
    widest = max(method.beam_width for method in methods.values())
    if run.workers == "auto" and count * widest <= run.chunk_rows:
        workers = 0  # one chunk: nothing to share out
    pool = SearchPool(problem, policy, workers, run.chunk_rows, str(device), precision, run.worker_threads)
    where = f"{hardware(device)}, {precision}, {workers or 'no'} workers"
    about = {"checkpoint": str(path), "instances": run.instances, "hardware": where}
    results: dict[str, list[Solved]] = {}
    outcomes: dict[str, Outcome] = {}
    with pool, Terminal() as terminal:
        pool.load(saved["weights"])
        for name, method in methods.items():
            done = 0
            terminal.progress(name, 0, count)

            def advance(instances: int, name: str = name) -> None:
                nonlocal done
                done += instances
                terminal.progress(name, done, count)

            results[name] = [solve(pool, benchmark, method, run.seed, advance) for benchmark in benchmarks]
            outcomes[name] = summarise(results[name], benchmarks)
            write_json(out_dir, outcomes, benchmarks, about)  # after each method: a later one may not finish
            write_csv(out_dir, results, benchmarks, problem)
        show(terminal, outcomes, benchmarks, run, where)
        terminal.say(f"written: {out_dir}/results.json, {out_dir}/results.csv")
    return outcomes


def new_directory(asked: str | None) -> Path:
    """The folder of the results. Raises ValueError if it holds results already."""
    path = Path(asked or Path("evaluations", datetime.now().strftime("%Y-%m-%d_%H-%M-%S-%f")))
    if (path / "results.json").exists():
        raise ValueError(f"out_dir={path} holds results already; choose another")
    path.mkdir(parents=True, exist_ok=True)
    return path


def show(terminal: Terminal, outcomes: dict[str, Outcome], benchmarks: list[Benchmark], run: Any, where: str) -> None:
    """The table Method | Obj | Gap | Time."""
    rows = []
    for name, outcome in outcomes.items():
        gap = "-" if outcome.mean_gap is None else f"{outcome.mean_gap:.3%}"
        each = outcome.seconds / outcome.num_instances
        rows.append([name, f"{outcome.mean_cost:.4f}", gap, f"{outcome.seconds:.1f} s", f"{each:.3g} s"])
    count = sum(len(benchmark.names) for benchmark in benchmarks)
    reference = f"gap to: {reference_of(benchmarks)}" if reference_of(benchmarks) else "no reference costs, so no gap"
    title = f"{run.instances}: {count} instance{'s' if count > 1 else ''}"
    terminal.table(title, ["Method", "Obj", "Gap", "Time", "per instance"], rows, f"{reference}; {where}")


def reference_of(benchmarks: list[Benchmark]) -> str | None:
    """What the reference costs are, None if there are none."""
    names = dict.fromkeys(kind for benchmark in benchmarks for kind in benchmark.kinds if kind)
    return " / ".join(names) or None


def write_json(out_dir: Path, outcomes: dict[str, Outcome], benchmarks: list[Benchmark], about: dict[str, str]) -> None:
    """results.json: what was measured and how."""
    reference = reference_of(benchmarks)
    methods = {name: {**outcome._asdict(), "reference": reference} for name, outcome in outcomes.items()}
    content = {"methods": methods, **about, "command": shlex.join(sys.argv)}
    _replace(out_dir / "results.json", json.dumps(content, indent=2) + "\n")


def write_csv(out_dir: Path, results: dict[str, list[Solved]], benchmarks: list[Benchmark], problem: Problem) -> None:
    """results.csv: a line per method and instance, with its solution (node indices from 0, in the input's order)."""
    text = io.StringIO()
    writer = csv.writer(text)
    solution_of = getattr(problem, "solution", Tensor.tolist)
    writer.writerow(["method", "instance", "cost", "reference", "gap", "solutions", "solution"])
    for name, solved in results.items():
        for part, benchmark in zip(solved, benchmarks, strict=True):
            columns = zip(
                benchmark.names,
                part.costs.tolist(),
                benchmark.references.tolist(),
                gaps(part, benchmark).tolist(),
                part.found.tolist(),
                part.actions,
                strict=True,
            )
            for instance, cost, reference, gap, found, actions in columns:
                known = [reference, gap] if reference == reference else ["", ""]
                solution = " ".join(map(str, solution_of(actions)))
                writer.writerow([name, instance, cost, *known, found, solution])
    _replace(out_dir / "results.csv", text.getvalue())


def _replace(path: Path, text: str) -> None:
    with replacing(path) as file:
        file.write(text.encode())


def main() -> None:
    command.run(evaluate, "evaluate")


if __name__ == "__main__":
    main()
