"""`python -m benchmarks` lists the measurements; `python -m benchmarks NAME [--help] [key=value ...]` runs one."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType

from gumbeldore.cli.command import INTERRUPTED
from gumbeldore.cli.words import key_values


def main() -> None:
    names = sorted(path.stem for path in Path(__file__).parent.glob("[!_]*.py"))
    if len(sys.argv) < 2 or sys.argv[1] not in names:
        for name in names:
            about = importlib.import_module(f"benchmarks.{name}").__doc__.splitlines()[0]
            print(f"python -m benchmarks {name:14} {about}")
        sys.exit(f"error: there is no measurement {sys.argv[1]}" if len(sys.argv) > 1 else 0)
    module = importlib.import_module(f"benchmarks.{sys.argv[1]}")
    if {"-h", "--help"} & set(sys.argv[2:]):
        values = "".join(f"\n  {key}={value}" for key, value in module.DEFAULTS.items())
        print(f"{(module.__doc__ or '').strip()}\n\nkey=value, by default:{values}")
        return
    try:
        run(module, sys.argv[2:])
    except subprocess.CalledProcessError as error:  # the command has said why, unless a signal ended it
        sys.exit(error.returncode if error.returncode > 0 else f"error: {error}")
    except (ValueError, OSError) as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(INTERRUPTED)


def run(module: ModuleType, words: list[str]) -> None:
    """One measurement with values as typed. Raises ValueError for what is wrong with them."""
    given = key_values(words)
    unknown = set(given) - set(module.DEFAULTS)
    if unknown:
        name = module.__name__.rpartition(".")[2]
        raise ValueError(f"there is no {', '.join(unknown)}; {name} has {', '.join(module.DEFAULTS)}")
    values = dict(module.DEFAULTS)
    for key, word in given.items():
        kind = type(values[key])
        try:
            values[key] = kind(word)
        except ValueError:
            raise ValueError(f"{key} must be {'an integer' if kind is int else 'a number'}, got {word!r}") from None
    module.main(**values)


if __name__ == "__main__":
    main()
