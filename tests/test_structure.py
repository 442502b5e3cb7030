"""The import ladder, what a bare machine can do, and that nobody waits for a package that is not needed."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.bare import BARE

ROOT = Path(__file__).parent.parent

# A room may import from the rooms before it; `root` are the modules beside the rooms that every room may import.
ROOMS = ["runtime", "races", "sampler", "parallel", "training", "evaluation", "studies", "reporting", "cli"]
ROOT_MODULES = {"batches", "instance_set", "interfaces", "reports", "seeding"}
PUBLIC = {"__init__", "testing"}  # of the root, for users: no room imports them
CONTRACTS = {"gumbeldore.batches", "gumbeldore.instance_set", "gumbeldore.interfaces"}
ALLOWED = {
    "problems": {
        *("problems", *CONTRACTS, "gumbeldore.reports"),
        *("gumbeldore.runtime.arrays", "gumbeldore.runtime.checked", "gumbeldore.runtime.jit"),
    },
    "models": {"models", "problems", *CONTRACTS, "gumbeldore.runtime.checked", "gumbeldore.runtime.gpu"},
}
RAY = {"ray_cluster.py", "ray_actors.py", "pool.py"}  # the modules of the core that know it
# problems/solvers may import these, too
SOLVERS = {
    *(
        "gumbeldore.runtime.files",
        "gumbeldore.runtime.errors",
        "gumbeldore.runtime.stopping",
        "gumbeldore.runtime.hardware",
    ),
    *("gumbeldore.parallel.ray_actors", "gumbeldore.parallel.ray_cluster"),
}


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{name.name}" for name in node.names}
    return found


def modules(package: str) -> list[Path]:
    return [path for path in sorted((ROOT / package).glob("**/*.py")) if path.name != "__init__.py"]


def room(module: str) -> str:
    """Where a module of the core lives."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in ROOMS else "root"


@pytest.mark.parametrize("path", modules("gumbeldore"), ids=lambda path: path.stem)
def test_core_imports_point_down_the_ladder(path):
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    here = room(module)
    known = {path.stem, path.parent.name} & (ROOT_MODULES | PUBLIC)
    assert here != "root" or known, f"{path.name} is in no room"
    below = {"root", *(ROOMS[: ROOMS.index(here) + 1] if here != "root" else ())}
    for name in imports(path):
        package = name.split(".")[0]
        if package == "gumbeldore" and path.stem not in PUBLIC:
            assert room(name) in below, f"{module} imports {name}, which is not below it"
            assert room(name) != "root" or name.split(".")[1] in ROOT_MODULES, f"{module} imports {name}"
        assert package not in {"problems", "models", "train", "evaluate", "study", "tests"}, f"{module} imports {name}"
        assert package not in {"hydra", "omegaconf"} or here == "cli", f"{module} imports {name}"
        assert package != "ray" or path.name in RAY, f"{module} imports {name}"


@pytest.mark.parametrize("package", ["gumbeldore", "problems", "models"])
def test_modules_import_each_other_without_circles(package):
    graph = {".".join(path.relative_to(ROOT).with_suffix("").parts): imports(path) for path in modules(package)}
    done: set[str] = set()

    def visit(module: str, way: tuple[str, ...]) -> None:
        assert module not in way, f"a circle of imports: {' -> '.join([*way, module])}"
        if module not in done:
            for name in graph[module]:
                for target in (name, name.rpartition(".")[0]):
                    if target in graph:
                        visit(target, (*way, module))
            done.add(module)

    for module in graph:
        visit(module, ())


@pytest.mark.parametrize("package", ALLOWED)
def test_packages_know_only_what_they_may(package):
    own = {"gumbeldore", "problems", "models", "train", "evaluate", "study", "tests"}
    for path in modules(package):
        if path.name == "__main__.py":
            continue  # a command: like train.py, it may import everything
        solvers = path.parent.name == "solvers"
        allowed = ALLOWED[package] | (SOLVERS if solvers else set())
        for name in imports(path):
            if name.split(".")[0] in own:
                assert any(name.startswith(prefix) for prefix in allowed), f"{path} imports {name}"
            assert name.split(".")[0] not in {"hydra", "omegaconf"}, f"{path} imports {name}"
            assert name.split(".")[0] != "ray" or solvers, f"{path} imports {name}"


def test_no_module_of_tests_imports_another_one():
    """What several of them need is in tests/helpers: so each can be split or moved alone."""
    for path in modules("tests"):
        for name in imports(path):
            assert not re.match(r"tests\.(\w+\.)*test_", name), f"{path.relative_to(ROOT)} imports {name}"


def python(code: str, cwd: Path = ROOT) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-c", code], cwd=cwd, capture_output=True, text=True)


def training() -> str:
    """The training of docs/api.md."""
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    return BARE + page.partition("## Train without Hydra and Ray")[2].partition("```python\n")[2].partition("```")[0]


@pytest.mark.slow
def test_trains_with_torch_and_numpy_alone(tmp_path):
    result = python(training(), tmp_path)
    assert result.returncode == 0, result.stderr
    best, cost, tour = result.stdout.split(maxsplit=2)
    assert 2.638 < float(best) < 3.0  # random tours of the validation set are 4.10 long, optimal ones 2.638
    assert float(cost) == pytest.approx(5 + 5 + 45**0.5 + 5) and sorted(eval(tour)) == [0, 1, 2, 3]


def test_the_tests_for_a_gpu_need_neither_hydra_nor_ray():
    result = python(BARE.replace(', "pytest"', "") + "\nimport tests.test_gpu")
    assert result.returncode == 0, result.stderr


@pytest.mark.slow
def test_workers_without_ray_are_refused_clearly():
    result = python(training().replace("SearchPool(problem, policy)", "SearchPool(problem, policy, workers=2)"))
    assert result.returncode != 0 and "workers=2 needs the package ray" in result.stderr


# ---- packages that are not needed

HEAVY = {"matplotlib", "ray", "tensorboard", "jinja2", "pandas", "scipy", "pyvrp", "ortools", "torch._dynamo"}
OF_COMMANDS = {"hydra", "omegaconf", "rich", "yaml"}  # and not of the library
CODE = """
import sys
import torch
before = set(sys.modules)  # torch's own, which differ between its releases
{}
print("\\nimported:", *set(sys.modules) - before)
"""


def imported(code: str) -> set[str]:
    """The modules that a program imports beyond torch's."""
    result = python(CODE.format(code))
    assert result.returncode == 0, result.stderr
    return set(result.stdout.rpartition("imported: ")[2].split())


def test_the_library_imports_little_but_torch():
    found = imported("import gumbeldore, models, problems")
    assert "gumbeldore.sampler.beam" in found
    assert found.isdisjoint(HEAVY | OF_COMMANDS)


@pytest.mark.parametrize(
    "command", ["train", *(pytest.param(x, marks=pytest.mark.slow) for x in ("evaluate", "study"))]
)
def test_help_waits_for_no_heavy_package(command):
    found = imported(f"import {command}\nsys.argv = ['{command}.py', '--help']\n{command}.main()")
    assert OF_COMMANDS & found and found.isdisjoint(HEAVY)
