# Two commands matter to a newcomer: `make demo` and `make test`. Both set up everything they need.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
TRAINING := $(VENV)-training

CORES   := $(shell $(PYTHON) -c 'import os; print(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count())')
# Two more than there are cores: many tests wait for a process of their own.
WORKERS ?= $(shell expr $(CORES) + 2)

.PHONY: help demo quick test tests lint check pythons rehearsals sim mutants calibrate bids bench docs pictures page-pictures wheels release previous lock clean

help:    ## show this
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

demo: $(READY)    ## watch a job being outbid, moved, resumed and billed on a local market (one to three minutes)
	$(BIN)/autopilot demo $(ARGS)

# Compiled files are kept, also where Python is told to keep nothing: else each process compiles the package, and each
# worker all tests, for itself. The hash seed is the one that the simulator's seeds are replayed with.
PYTEST := PYTHONDONTWRITEBYTECODE= PYTHONHASHSEED=0 $(BIN)/pytest -n $(WORKERS) --dist worksteal

quick: WORKERS = $(CORES)
quick: $(READY)    ## pure rules, property tests and documents (1 to 2 minutes)
	$(PYTEST) -q -m "not slow" tests/property tests/unit/config tests/unit/docs tests/unit/domain \
		tests/unit/engine tests/unit/policy

test: $(READY)    ## what must hold before every landing: lint, types, and all tests but the long ones (10 to 14 minutes on two cores)
	$(MAKE) --no-print-directory -j 2 lint tests

tests: $(READY)    ## the same without lint and types
	$(PYTEST) -q -m "not slow"

check: lint    ## all tests, with coverage, and the unit tests on every supported Python (an hour, and the Pythons)
	$(PYTEST) --cov --cov-report=term
	tools/pythons.sh
	$(MAKE) --no-print-directory rehearsals

REHEARSALS ?= 1

rehearsals: $(READY) $(TRAINING)/.ready    ## what needs PyTorch, Transformers and Lightning, two at once: REHEARSALS=10 where a fault shows at random
	TORCH_PYTHON=$(CURDIR)/$(TRAINING)/bin/python REHEARSALS=$(REHEARSALS) $(BIN)/pytest -q -n 2 \
		tests/rehearsal/test_rehearse_frameworks.py tests/rehearsal/test_callback_on_a_market.py tests/unit/docs/test_docs_torch_recipe.py

pythons:    ## the unit tests on Python 3.11 to 3.14, as far as they are installed
	tools/pythons.sh

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/lint-imports --no-cache --config tests/simulation/importlinter.ini

SEEDS      ?= 300
SEED_START ?= 1

sim: $(READY)    ## run the whole in virtual time with faults and kills: SEEDS=300 SEED_START=1 ARGS="--results FILE"
	$(BIN)/python -m tests.simulation --seeds $(SEEDS) --seed-start $(SEED_START) $(ARGS)

SHARD ?= 1/8

mutants: $(READY)    ## break the code of money and checkpoints, one place at a time, and see which test notices: SHARD=3/8, then REPORT=1
	$(BIN)/python -m tools.mutants $(if $(REPORT),--report,--shard $(SHARD)) $(ARGS)

calibrate: $(READY)    ## plan jobs, play them as live, and hold what was said against what came: SHARD=3/8, then REPORT=1
	$(BIN)/python -m tools.calibration $(if $(REPORT),--report,--shard $(SHARD)) $(ARGS)

bids: $(READY)    ## play every bid suite at hand as live against simple rules: SHARD=3/8, then REPORT=1
	$(BIN)/python -m tools.bids $(if $(REPORT),--report,--shard $(SHARD)) $(ARGS)

bench: $(READY)    ## measure what docs/explanation/performance.md states
	$(BIN)/python benchmarks/run.py

docs: $(READY)    ## regenerate the tables, test the rest, and measure the prose
	$(BIN)/python -m tools.references
	$(BIN)/python -m tests.licences
	$(BIN)/pytest -q -n auto tests/unit/docs tests/unit/cli/test_cli_reference.py \
		tests/unit/config/test_job_reference.py tests/simulation/drivers/test_document.py
	$(BIN)/python -m tools.prose

pictures: $(READY)    ## play the demo; draw its end and its job into docs/images
	$(BIN)/autopilot demo --plain --picture docs/images/demo.svg --job-picture docs/images/job.svg

page-pictures: $(READY)    ## regenerate the reference pictures of the pages, and those of the docs (needs chromium)
	AUTOPILOT_KEEP_PICTURES=1 $(BIN)/pytest -q -m slow tests/browser/test_browser_pictures.py
	$(BIN)/python -m tools.page_pictures

EXTRAS     ?= all
LAB_EXTRAS ?=

wheels:    ## build both wheels into dist/, with all that they need: EXTRAS=vast,s3 for a part of it
	tools/wheels.sh $(PYTHON) "$(EXTRAS)" "$(LAB_EXTRAS)"

release: $(READY)    ## build both wheels and the sdist; install them away from the sources and run the demo
	tools/release.sh $(VENV)

previous: $(READY)    ## keep REVISION as the version before, which the takeover test upgrades from
	$(BIN)/python -m tests.previous $(REVISION)

LOCK := uv pip compile -q --universal -p 3.11 --generate-hashes --no-emit-index-url --custom-compile-command "make lock"
COMPILE := $(LOCK) pyproject.toml

lock:    ## resolve the dependencies again: requirements.lock to run, requirements-dev.lock beside it to develop, requirements-training.lock for rehearsals (needs uv)
	$(COMPILE) --extra vast --extra runpod --extra nebius --extra postgres --extra s3 --excludes requirements-left-out.txt \
		-o requirements.lock
	$(COMPILE) packages/lab/pyproject.toml --extra dev -c requirements.lock -o requirements-dev.lock
	$(LOCK) requirements-training.in -o requirements-training.lock

clean:    ## remove the virtual environment and caches
	rm -rf $(VENV) $(VENV)-3.* $(TRAINING) dist .mypy_cache .ruff_cache .pytest_cache .hypothesis

# Locked and hash-checked, then this checkout on top. --no-deps: the SDKs declare what the lock leaves out.
# Written last, so a cut-off set-up starts over.
$(READY): requirements.lock requirements-dev.lock pyproject.toml packages/lab/pyproject.toml autopilot/__init__.py
	$(PYTHON) -c 'import sys; sys.exit("autopilot needs Python 3.11 to 3.14; try: make PYTHON=python3.12") if not (3, 11) <= sys.version_info < (3, 15) else None'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes --no-deps --only-binary :all: \
		-r requirements.lock -r requirements-dev.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation \
		--editable . --editable packages/lab
	touch $(READY)

# Apart from the rest: three gigabytes, with what PyTorch brings for GPUs. The programs of rehearsals alone import it.
$(TRAINING)/.ready: requirements-training.lock
	$(PYTHON) -m venv $(TRAINING)
	$(TRAINING)/bin/pip install --quiet --disable-pip-version-check --require-hashes --no-deps --only-binary :all: \
		-r requirements-training.lock
	touch $@
