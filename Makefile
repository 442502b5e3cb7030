# GNU make. `make help` lists the targets; each makes .venv by itself when it needs it.

# The interpreter .venv is made with: the first of these that is Python 3.10 to 3.13.
PYTHON ?= python3 python3.13 python3.12 python3.11 python3.10
ARGS ?=

.DELETE_ON_ERROR:
.PHONY: help train test test-all lint bench

help:
	@echo "make train [ARGS='...']      a training of a minute or two (TSP, 20 nodes); ARGS are more settings, e.g. ARGS='seed=1'"
	@echo "make test [ARGS='...']       ruff, mypy and the fast tests, as CI does; ARGS go to pytest"
	@echo "make test-all [ARGS='...']   the same with the slow tests"
	@echo "make bench [ARGS='...']      sampling and training speed (minutes), or the benchmark that ARGS names"
	@echo "PYTHON=python3.12 with any of them picks the interpreter (3.10 to 3.13) for a new .venv."

train: .venv/.installed
	@echo "Training on TSP"
	@.venv/bin/python train.py experiment=demo $(ARGS)

test: lint
	@echo "Running the fast tests"
	@.venv/bin/python -m pytest -n auto -m "not slow and not gpu" $(ARGS)

test-all: lint
	@echo "Running the fast and the slow tests"
	@.venv/bin/python -m pytest -n auto -m "not gpu" $(ARGS)

lint: .venv/.installed
	@echo "Checking the code with ruff, and the types of the core with mypy"
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .
	@.venv/bin/mypy

bench: .venv/.installed
ifeq ($(ARGS),)
	@.venv/bin/python -m benchmarks sampling out=runs/bench/sampling.json
	@.venv/bin/python -m benchmarks training out=runs/bench/training.json
else
	@.venv/bin/python -m benchmarks $(ARGS)
endif

# Made anew whenever the pins change. The stamp comes last, so that a failed installation is tried again.
# The two variables also pin setuptools where pip builds a package (the second is for pip 25.3 and later).
.venv/.installed: pyproject.toml constraints.txt
	@python=; \
	for name in $(PYTHON); do \
		if $$name -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then \
			python=$$name; break; \
		fi; \
	done; \
	if [ -z "$$python" ]; then \
		echo "No Python 3.10 to 3.13 found under: $(PYTHON)" >&2; \
		echo "Install one, or name one: make PYTHON=/path/to/python3.12 ..." >&2; \
		exit 1; \
	fi; \
	if ! $$python -c 'import ensurepip, venv' 2>/dev/null; then \
		package=$$($$python -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])'); \
		echo "$$python cannot make a virtual environment; on Debian or Ubuntu: apt-get install $$package" >&2; \
		exit 1; \
	fi; \
	echo "Making .venv with $$python ($$($$python --version))"; \
	$$python -m venv --clear .venv
	@echo "Installing the packages pinned in constraints.txt (takes minutes the first time)"
	@PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt \
		.venv/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[test,solvers]'
	@touch $@
