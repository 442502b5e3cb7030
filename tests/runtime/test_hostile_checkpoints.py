"""Checkpoints that are damaged, of something else or made with ill will: refused in one line, nothing is executed."""

from __future__ import annotations

import copy
import hashlib
import importlib
import io
import re
import shutil
import sys
import zipfile
from pathlib import Path

import pytest
import torch
import yaml
from omegaconf import OmegaConf

import evaluate
import train
from gumbeldore import Policy, Problem, load_policy, methods
from gumbeldore.cli.configuration import Configuration
from gumbeldore.cli.resume import read_config
from gumbeldore.runtime import checkpoint
from tests.helpers.commands import done
from tests.helpers.commands import refused as refused_line
from tests.helpers.evaluations import untrained
from tests.helpers.mutations import Trap, damaged, outcomes, repacked
from tests.helpers.pages import write

CONTENT = {
    "config": {"problem": {"num_nodes": 20}, "model": {"width": 16}, "rates": [0.1, None, True]},
    "weights": {"a": torch.arange(300.0).view(20, 15), "b": torch.ones(7, dtype=torch.bfloat16), "c": torch.tensor(3)},
    "epoch": 3,
    "best_gap": -1.5,
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "policy.pt"


def sealed(body: bytes) -> bytes:
    """With a checksum that is right: whoever forges the content can compute it, too."""
    return body + checkpoint.MARK + hashlib.sha256(body).digest()


def unsealed(path) -> bytes:
    return path.read_bytes()[: -checkpoint.TAIL]


def saved(content) -> bytes:
    torch.save(content, buffer := io.BytesIO())
    return buffer.getvalue()


def refused(path, rule):
    return pytest.raises(ValueError, match=f"^{re.escape(str(path))} .*{rule}")


def same(a, b) -> bool:
    if isinstance(a, dict):
        return isinstance(b, dict) and list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and torch.equal(a, b)
    return type(a) is type(b) and a == b


def test_what_was_saved_is_read(path):
    checkpoint.save(path, CONTENT)
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    assert same(checkpoint.load(path), {"format": checkpoint.FORMAT, **CONTENT})
    assert same(torch.load(path, weights_only=True)["weights"], CONTENT["weights"])  # by torch alone, too


def test_damaged_checkpoints_are_refused_or_whole(path):
    """1,000 of them; behind a checksum that somebody has made fit, 500 more are refused or read with sound tensors."""

    def unchanged(data, content):
        assert same(content, {"format": checkpoint.FORMAT, **CONTENT})

    checkpoint.save(path, CONTENT)
    original, body = path.read_bytes(), unsealed(path)
    counts = outcomes(original, range(1000), path, checkpoint.load, unchanged)
    assert sum(counts.values()) == 1000 and counts["refused"] > 900
    for seed in range(500):
        path.write_bytes(sealed(damaged(body, seed)))
        try:
            content = checkpoint.load(path)
        except ValueError as error:
            assert str(path) in str(error) and "\n" not in str(error)
        else:
            assert all(tensor.isfinite().all() for tensor in content["weights"].values())


@pytest.mark.parametrize(
    "content", [{}, {"format": None}, {"format": True}, {"format": "pt"}, {"format": [3] * 10**5}, [1, 2], CONTENT]
)
def test_what_another_program_has_saved_is_named_so(path, content):
    path.write_bytes(saved(content))
    with refused(path, "is not a checkpoint of gumbeldore, but a file of another program$"):
        checkpoint.load(path)


@pytest.mark.parametrize("number", [1, 2, checkpoint.FORMAT + 1, 10**300])
def test_other_formats_are_named(path, number):
    for data in (saved({"format": number, **CONTENT}), sealed(saved({"format": number, **CONTENT}))):
        path.write_bytes(data)
        with refused(path, f"has checkpoint format .*, this version reads format {checkpoint.FORMAT}$") as caught:
            checkpoint.load(path)
        assert len(str(caught.value)) < len(str(path)) + 100


@pytest.mark.parametrize("place", ["the file", "weights", "config"])
def test_nothing_in_a_checkpoint_is_executed(path, place):
    trap, content = Trap(path.parent / "trapped"), {"format": checkpoint.FORMAT, **CONTENT}
    body = saved(trap if place == "the file" else {**content, place: trap})
    for data in (body, sealed(body)):
        path.write_bytes(data)
        with refused(path, "is not a readable checkpoint: it holds more than tensors and plain values"):
            checkpoint.load(path)
    assert not (path.parent / "trapped").exists()
    torch.load(path, weights_only=False)
    assert (path.parent / "trapped").exists()  # the trap works


TENSOR = torch.ones(2, 3)
GONE = object()
UNUSABLE = {
    "config gone": ({"config": GONE}, "there is no 'config'"),
    "weights gone": ({"weights": GONE}, "there is no 'weights'"),
    "no weights": ({"weights": None}, "its weights must be a dictionary, got NoneType"),
    "nan": ({"weights": {"a": TENSOR, "b": TENSOR * torch.nan}}, "weights.b holds NaN or infinity"),
    "infinity": ({"train_state": {"x": [{"y": TENSOR / 0}]}}, "train_state.x.0.y holds NaN or infinity"),
    "a tensor of 10^12": ({"weights": {"a": torch.ones(1).expand(10**6, 10**6)}}, "weights.a claims more numbers than"),
}


@pytest.mark.parametrize("case", UNUSABLE)
def test_unusable_content_is_refused(path, case):
    change, rule = UNUSABLE[case]
    content = {**CONTENT, **change}
    checkpoint.save(path, {key: value for key, value in content.items() if value is not GONE})
    with refused(path, f"is not a usable checkpoint: {rule}"):
        checkpoint.load(path)


def test_claimed_sizes_take_no_memory(path):
    """A compressed record of zeros, a billion numbers in a record of 1,200 bytes, a record that is missing."""
    checkpoint.save(path, CONTENT)
    body = unsealed(path)
    bomb = repacked(body, lambda n, x: {n: bytes(2**26) if n.endswith("data/0") else x}, zipfile.ZIP_DEFLATED)
    assert len(bomb) < 2**18
    huge = repacked(body, lambda n, x: {n: x.replace(b"M\x2c\x01", b"J" + (10**9).to_bytes(4, "little"))})
    gone = repacked(body, lambda n, x: {} if n.endswith("data/0") else {n: x})
    for data, rule in ((bomb, "claims to be larger than its file"), (huge, "."), (gone, ".")):
        path.write_bytes(sealed(data))
        with refused(path, rule):
            checkpoint.load(path)


# ---- the commands


def forged(source: Path, target: Path, change) -> Path:
    content = checkpoint.load(source)
    change(content)
    checkpoint.save(target, content)
    return target


def key(*path, value):
    def change(content):
        for name in path[:-1]:
            content = content[name]
        if value is None:
            del content[path[-1]]
        else:
            content[path[-1]] = value

    return change


FORGED = {  # what is changed in the checkpoint of a TSP policy
    "of another problem": (key("config", "problem", value={"_target_": "problems.jssp.JSSP"}), "problem: "),
    "of another network": (key("config", "model", "width", value=32), "size mismatch"),
    "of a network beyond all memory": (key("config", "model", "width", value=10**12), "weights are far too few for a"),
    "a program": (key("config", "model", "_target_", value="os.system"), "model._target_=os.system is not a class"),
    "a program in it": (key("config", "model", "heads", value={"_target_": "os.system"}), "must hold plain values"),
    "a weight missing": (key("weights", "embed.weight", value=None), "Missing key"),
}


@pytest.mark.slow
def test_the_evaluation_refuses_them_in_one_line(tmp_path):
    source = untrained(tmp_path) / "tsp.pt"
    for name, (change, rule) in FORGED.items():
        path = forged(source, tmp_path / "forged.pt", change)
        line = refused_line(evaluate, f"checkpoint={path}", "instances=kool/tsp20", "out_dir=out", cwd=tmp_path)
        assert str(path) in line and rule in line, (name, line)


@pytest.mark.slow
def test_a_damaged_run_is_not_continued(tmp_path):
    words = ["debug=fast", "problem.num_nodes=6", "model.layers=1", "model.width=16", "run_dir=run", "train.epochs=2"]
    slow = ["train.learning_rate=1e-9", "train.muon_learning_rate=1e-9"]
    done(train, *words, *slow, cwd=tmp_path)  # the second epoch is no better: its experts stay
    last, dataset = tmp_path / "run/checkpoints/last.pt", tmp_path / "run/dataset"
    whole, (shard,) = last.read_bytes(), dataset.iterdir()

    def message():
        return refused_line(train, "resume=run", cwd=tmp_path)

    last.write_bytes(whole[:-1000])
    assert "error: run/checkpoints/last.pt is not a readable checkpoint" in message()
    last.write_bytes(whole)
    forged(last, last, key("train_state", "policy", "embed.weight", value=torch.ones(3, 3)))
    assert "error: run/checkpoints/last.pt does not fit: " in message()
    forged(last, last, key("train_state", value=None))
    assert "there is no 'train_state'" in message()
    last.write_bytes(whole)
    data = shard.read_bytes()
    for bad in (data[: len(data) // 2], data.replace(b"NUMPY", b"NUMPU"), b""):
        shard.write_bytes(bad)
        assert f"run/dataset/{shard.name} is damaged" in message()
    shard.unlink()
    assert f"there is no file run/dataset/{shard.name}" in message()


# ---- names of classes in files of somebody else: of nothing that is called, in no module that is imported for it


CALLS = {  # what would leave a file behind if it were called with these values
    "os.system": {"command": "touch trapped"},
    "posix.system": {"command": "touch trapped"},
    "subprocess.Popen": {"args": ["touch", "trapped"]},
    "builtins.open": {"file": "trapped", "mode": "w"},
    "builtins.exec": {"_args_": ["open('trapped', 'w')"]},
    "pathlib.Path.touch": {"self": "trapped"},
    "torch.load": {"f": "pickled", "weights_only": False},
    "numpy.load": {"file": "pickled", "allow_pickle": True},
    "shutil.copyfile": {"src": "pickled", "dst": "trapped"},
    "functools.partial": {"_args_": [{"_target_": "os.system", "command": "touch trapped"}]},
    "hydra.utils.instantiate": {"config": {"_target_": "os.system", "command": "touch trapped"}},
    "gumbeldore.runtime.files.os.system": {"command": "touch trapped"},
    "gumbeldore.runtime.files.write_text": {"path": "trapped", "text": ""},
    "models.bq_tsp.torch.load": {"f": "pickled", "weights_only": False},
    "problems.tsp.problem.torch.hub.os.system": {"command": "touch trapped"},
    "lying.Trap": {},
    "lying": {},
    "lying.inside.Trap": {},
    "lying:Trap": {},
    "gumbeldore.runtime.files.lying.Trap": {},
    "torch.lying.Trap": {},
    ".lying.Trap": {},
    "lying..Trap": {},
    "__main__.Trap": {},
    f"{__name__}.Solves": {},
}
LYING = "open('trapped', 'w')\nfrom gumbeldore import *\n\nclass Trap(Policy, Problem, Method): ...\n"


class Solves:
    """A class that has the methods of a baseline, and inherits none of the project's kinds."""

    def __init__(self):
        Path("trapped").touch()

    def check(self, problem): ...

    def solve(self, problem, instance_set, progress): ...


for kind in (Problem, Policy, methods.Method):
    kind.register(Solves)  # so that Python's issubclass takes it for one


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, which Python searches first: modules that lie there, a pickle, and a run of somebody's."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for place in ("lying.py", "run/checkpoints/last.pt", "run/lock"):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text(LYING if place.endswith(".py") else "")
    (tmp_path / "pickled").write_bytes(saved(Trap(Path("trapped"))))
    yield tmp_path
    sys.modules.pop("lying", None)


@pytest.fixture(scope="module")
def values():
    """The configuration of a run, as its config.yaml has it."""
    return OmegaConf.to_container(Configuration.of_training("debug=fast", "problem.num_nodes=6").cfg, resolve=True)


def objects_of(values):
    """What `resume=` makes of a config.yaml with these values."""
    path = Path("run/config.yaml")
    path.write_text(yaml.safe_dump(values))
    config = Configuration(read_config(path), composed=False)
    return config.training_search(), config.part("problem", Problem), config.part("model", Policy)


def with_node(values, place, node):
    """The values, with the node at a dotted place."""
    copied = copy.deepcopy(values)
    *above, last = place.split(".")
    part = copied
    for name in above:
        part = part.setdefault(name, {})
    part[last] = node
    return copied


@pytest.mark.parametrize("place", ["problem", "model", "methods.gumbeldore", "methods.second"])
@pytest.mark.parametrize("target", CALLS)
def test_a_run_of_somebody_calls_and_imports_nothing_that_it_names(target, place, folder, values):
    assert len(objects_of(values)) == 3
    with pytest.raises(ValueError, match=rf"^run/config.yaml: {place}._target_=\S* ") as error:
        objects_of(with_node(values, place, {"_target_": target, **CALLS[target]}))
    assert "\n" not in str(error.value)
    assert not Path("trapped").exists() and "lying" not in sys.modules


TRAP = {"_target_": "os.system", "command": "touch trapped"}
NESTED = {
    "an argument": ("methods.gumbeldore.start", TRAP),
    "a list": ("methods.gumbeldore.start", [[TRAP]]),
    "a dictionary": ("methods.gumbeldore.start", {"a": {"b": TRAP}}),
    "positional arguments": ("methods.gumbeldore._args_", [TRAP]),
    "a part of itself": ("methods.gumbeldore._partial_", TRAP),
    "the search's width": ("search.beam_width", TRAP),
    "a network's argument": ("model.heads", TRAP),
    "a problem's argument": ("problem.grow", [TRAP]),
    "an interpolation of the environment": ("methods.gumbeldore._target_", "${oc.env:TARGET}"),
    "an interpolation of another key": ("methods.gumbeldore", "${model}"),
    "an interpolation of Hydra": ("problem.num_nodes", "${hydra:runtime.cwd}"),
    "a list as a target": ("methods.gumbeldore._target_", ["os.system"]),
    "a number as a target": ("model._target_", 3),
    "nothing as a target": ("model._target_", None),
    "a class that is not built": ("methods.gumbeldore._target_", "gumbeldore.methods.Method"),
    "a text for a method": ("methods.gumbeldore", "os.system"),
}


@pytest.mark.parametrize("case", NESTED)
def test_nothing_inside_a_run_of_somebody_is_called(case, folder, values, monkeypatch):
    monkeypatch.setenv("TARGET", "os.system")
    with pytest.raises(ValueError) as error:
        objects_of(with_node(values, *NESTED[case]))
    assert "\n" not in str(error.value) and not Path("trapped").exists()


def test_no_word_of_hydra_is_one_of_a_method(folder, values):
    """`_partial_` and `_convert_` are arguments that the method does not have."""
    for word in ("_partial_", "_convert_", "_recursive_"):
        with pytest.raises(ValueError, match=f"method=gumbeldore: .* unexpected keyword argument '{word}'"):
            objects_of(with_node(values, f"methods.gumbeldore.{word}", True))


def test_a_run_of_somebody_joins_no_cluster_that_it_names(folder, values):
    Path("run/config.yaml").write_text(yaml.safe_dump(with_node(values, "ray.address", "ray://127.0.0.1:9")))
    line = refused_line(train, "resume=run", cwd=folder)
    assert "the run was on a Ray cluster; name it again if it is yours: ray.address=ray://127.0.0.1:9" in line


STRANGE = {  # a config.yaml that is valid, but that no run has written
    "deep": ("train: " + "[" * 100_000 + "]" * 100_000, "it nests more than 20 deep"),
    "deep blocks": ("\n".join(f"{' ' * n}a:" for n in range(900)), "it nests more than 20 deep"),
    "refers to itself": ("train: &a {b: *a}", "it refers to something"),
    "explodes": (
        "a0: &a0 [x]\n" + "\n".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30)),
        "it refers to something",
    ),
    "merges": ("train: &a {b: 1}\nmodel: {<<: *a}", "it refers to something"),
    "large": ("x: 1\n" * 300_000, "it has more than 1048576 bytes"),
    "calls Python": ("train: !!python/object/apply:os.system ['touch trapped']", "could not determine a constructor"),
    "a set": ("train: !!set {a, b}", "."),
    "a list": ("[]", "it has no keys of train"),
    "no text": (b"\xff\xfe\x00\x01", "."),
    "digits": ("train: " + "9" * 9999, "."),
}


@pytest.mark.parametrize("case", STRANGE)
def test_a_strange_configuration_is_refused_in_one_line(case, folder):
    text, rule = STRANGE[case]
    Path("run/config.yaml").write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(ValueError, match=rf"^run/config.yaml is not the configuration of a run: .*{rule}") as error:
        read_config(Path("run/config.yaml"))
    assert "\n" not in str(error.value) and not Path("trapped").exists()


@pytest.mark.parametrize("part", ["problem", "model"])
@pytest.mark.parametrize("target", CALLS)
def test_a_checkpoint_of_somebody_calls_and_imports_nothing_that_it_names(target, part, folder, policies):
    content = checkpoint.load(policies / "tsp.pt")
    content["config"][part] = {"_target_": target, **CALLS[target]}
    checkpoint.save(Path("forged.pt"), content)
    with pytest.raises(ValueError, match=rf"^forged.pt does not fit: {part}._target_=") as error:
        load_policy("forged.pt")
    assert "\n" not in str(error.value)
    assert not Path("trapped").exists() and "lying" not in sys.modules


OWN = """
open('trapped', 'a').write('!')
from models.bq_tsp import BQ

class Outer:
    class Network(BQ): ...
"""


def test_own_classes_are_found_where_the_user_has_imported_or_named_their_module(folder, policies, monkeypatch):
    content = checkpoint.load(policies / "tsp.pt")
    content["config"]["model"]["_target_"] = "lying.net.Outer.Network"
    checkpoint.save(Path("own.pt"), content)
    shutil.rmtree(folder / "lying", ignore_errors=True)
    (folder / "lying.py").unlink()
    write({"lying/__init__.py": "", "lying/net.py": OWN}, folder)
    rule = "import lying first, or set GUMBELDORE_MODULES=lying for a command"
    with pytest.raises(ValueError, match=f"in no module of gumbeldore, problems or models; if it is yours, {rule}"):
        load_policy("own.pt")
    importlib.import_module("lying")  # and not the module inside, which the file names
    with pytest.raises(ValueError, match="cannot be imported: there is no net"):
        load_policy("own.pt")
    assert not Path("trapped").exists()
    monkeypatch.setenv("GUMBELDORE_MODULES", "another, lying")
    assert type(load_policy("own.pt").policy).__name__ == "Network"
    monkeypatch.delenv("GUMBELDORE_MODULES")
    assert type(load_policy("own.pt").policy).__name__ == "Network"  # imported by now
    assert Path("trapped").read_text() == "!"
    for name in ("lying.net", "lying"):
        sys.modules.pop(name)


def test_a_folder_in_place_of_a_package_of_ours_is_not_imported(folder, policies, monkeypatch):
    write({"models/__init__.py": "open('trapped', 'w')"}, folder)
    for name in [name for name in sys.modules if name.partition(".")[0] == "models"]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ValueError, match="model._target_=.* was looked for in .*models, which hides the package"):
        load_policy(policies / "tsp.pt")
    assert not Path("trapped").exists()
