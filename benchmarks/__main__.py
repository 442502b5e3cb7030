"""`python -m benchmarks` lists the measurements; `python -m benchmarks NAME [key=value ...]` runs one."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path


def main() -> None:
    names = sorted(path.stem for path in Path(__file__).parent.glob("[!_]*.py"))
    if len(sys.argv) < 2 or sys.argv[1] not in names:
        for name in names:
            about = importlib.import_module(f"benchmarks.{name}").__doc__.splitlines()[0]
            print(f"python -m benchmarks {name:10} {about}")
        sys.exit(len(sys.argv) > 1)
    module = importlib.import_module(f"benchmarks.{sys.argv[1]}")
    given = dict(word.split("=", 1) for word in sys.argv[2:])
    unknown = set(given) - set(module.DEFAULTS)
    if unknown:
        sys.exit(f"error: there is no {', '.join(unknown)}; {sys.argv[1]} has {', '.join(module.DEFAULTS)}")
    kinds = {key: type(value) for key, value in module.DEFAULTS.items()}
    module.main(**{**module.DEFAULTS, **{key: kinds[key](value) for key, value in given.items()}})


if __name__ == "__main__":
    main()
