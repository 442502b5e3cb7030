"""Everything a run needs to go on, in one file that is either whole or not there.

The file is torch's own, with the sha256 of its content behind it: torch itself does not notice a flipped bit.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import pickle
import re
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gumbeldore.runtime.arrays import regular
from gumbeldore.runtime.files import atomic_write

FORMAT = 5
MARK = b"sha256:"  # between the content and its digest
TAIL = len(MARK) + hashlib.sha256().digest_size
CAUSES = (  # what damage, or the content of another program, can raise in zipfile, pickle and torch
    *(RuntimeError, ValueError, TypeError, AttributeError, LookupError, OSError, EOFError, MemoryError, AssertionError),
    zipfile.BadZipFile,
)
LONGEST = 300  # characters of a reason
SHIPPED = Path(__file__).parents[2] / "pretrained"  # also in an installation


def save(path: Path, content: dict[str, Any]) -> None:
    """Write a checkpoint (tensors and plain values) to a temporary file, then rename it.

    Its tensors are those of a CPU, so that a machine without a GPU can read what a GPU has trained.
    """
    buffer = io.BytesIO()
    torch.save(_on_cpu({"format": FORMAT, **content}), buffer)
    with atomic_write(path) as file:
        file.write(buffer.getbuffer())
        file.write(MARK + hashlib.sha256(buffer.getbuffer()).digest())


def load(path: Path) -> dict[str, Any]:
    """Read a checkpoint onto the CPU; nothing in it is executed.

    Raises ValueError naming the file if it is missing, damaged or of another format version, if it lacks weights or the
    configuration they belong to, or if a tensor holds NaN or infinity.
    """
    if not path.is_file():
        raise ValueError(f"there is no checkpoint {path}")
    with checkpoint_errors(path, "is not a readable checkpoint"):
        data = path.read_bytes()
        marked = data[-TAIL:].startswith(MARK)
        body = data[:-TAIL] if marked else data
        if marked and hashlib.sha256(body).digest() != data[len(body) + len(MARK) :]:
            raise ValueError("it is damaged, its checksum does not match")
        content = unpickled(body)
    found = content.get("format") if isinstance(content, dict) else None
    if type(found) is not int:
        raise ValueError(f"{path} is not a checkpoint of gumbeldore, but a file of another program")
    if found != FORMAT:
        raise ValueError(f"{path} has checkpoint format {str(found):.20}, this version reads format {FORMAT}")
    if not marked:
        raise ValueError(f"{path} is not a readable checkpoint: it is damaged, its checksum is missing")
    with checkpoint_errors(path, "is not a usable checkpoint"):
        check(content)
    return content


def find(path: Path) -> Path:
    """The checkpoint a user means: a file, the best one of a run directory, or the policy that is shipped by this name.

    Raises ValueError if there is none.
    """
    if not path.exists() and str(path) in shipped():
        path = SHIPPED / path
    found = path
    if path.is_dir():
        alone = path / "best.pt"
        found = alone if alone.is_file() else path / "checkpoints" / "best.pt"
    if not regular(found).exists():
        raise ValueError(f"there is no checkpoint {found}; policies that are shipped: {', '.join(shipped())}")
    return found


def shipped() -> list[str]:
    """The names of the policies that come with the project, in the order of their sizes."""
    names = [folder.parent.name for folder in SHIPPED.glob("*/best.pt")]
    return sorted(names, key=lambda name: [int(x) if x.isdigit() else x for x in re.split(r"(\d+)", name)])


@contextlib.contextmanager
def checkpoint_errors(path: Path, rule: str = "does not fit") -> Iterator[None]:
    """Whatever the content of a checkpoint causes is one line that names the file."""
    try:
        yield
    except KeyError as error:
        raise ValueError(f"{path} {rule}: there is no {error}") from None
    except CAUSES as error:
        text = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"{path} {rule}: {text if len(text) <= LONGEST else text[:LONGEST] + '...'}") from None


def unpickled(body: bytes, allowed: Sequence[Any] = ()) -> Any:
    """What torch has saved; no record may take more memory than the file has bytes.

    Arguments:
        allowed: what may be in it beyond tensors and plain values, see `torch.serialization.safe_globals`
    """
    with zipfile.ZipFile(io.BytesIO(body)) as records:
        if sum(record.file_size for record in records.infolist()) > len(body):
            raise ValueError("it claims to be larger than its file")
    try:
        with torch.serialization.safe_globals(list(allowed)):
            return torch.load(io.BytesIO(body), map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:  # torch's own text says how to execute it
        raise ValueError("it holds more than tensors and plain values") from None


def _on_cpu(value: Any) -> Any:
    """The tensors in nested dictionaries, lists and tuples on the CPU."""
    if isinstance(value, Tensor):
        return value.cpu() if value.is_cuda else value
    if isinstance(value, dict):
        return {key: _on_cpu(each) for key, each in value.items()}
    return type(value)(map(_on_cpu, value)) if type(value) in (list, tuple) else value


def check(content: dict[str, Any]) -> None:
    """Raises ValueError unless there are weights, their configuration, and tensors that are what they claim."""
    for name, value in (("config", content["config"]), ("weights", content["weights"])):
        if not isinstance(value, dict) or not value:
            raise ValueError(f"its {name} must be a dictionary, got {type(value).__name__}")
    if not all(isinstance(value, Tensor) for value in content["weights"].values()):
        raise ValueError("its weights are not tensors")
    check_tensors(content)


def check_tensors(content: dict[str, Any]) -> None:
    """Raises ValueError unless all tensors are what they claim, and finite."""
    for name, tensor in _tensors(content, ""):
        plain = tensor.layout == torch.strided and tensor.device.type == "cpu"
        if not plain or tensor.nbytes > tensor.untyped_storage().nbytes():
            raise ValueError(f"{name} claims more numbers than the file holds")
        if not tensor.isfinite().all():
            raise ValueError(f"{name} holds NaN or infinity")


def _tensors(value: Any, name: str) -> Iterator[tuple[str, Tensor]]:
    """Every tensor in nested dictionaries and lists, with its place."""
    if isinstance(value, Tensor):
        yield name.lstrip("."), value
    elif isinstance(value, (dict, list, tuple)):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _tensors(part, f"{name}.{key}")
