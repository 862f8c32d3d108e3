# Two commands matter: `make demo` shows what Paceline does, `make test` proves that it works.
# Both set up everything they need inside this folder.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/paceline-ready

.DEFAULT_GOAL := demo
.PHONY: install demo test chaos check lint bench gpu-check lock clean

# All that Paceline needs, into .venv; every other command does this first.
install: $(READY)

demo: $(READY)
	$(BIN)/python -m examples.demo

# SLOW=1 includes the long runs; REQUIRE=1 makes a missing component a failure, not a skip.
test: $(READY) debian-packages lint
	PACELINE_TEST_REQUIRE=$(REQUIRE) $(BIN)/python -m pytest tests -m "not chaos$(if $(SLOW),, and not slow)"

# Kills a worker before and after every commit of a job: half an hour on two cores.
chaos: $(READY)
	$(BIN)/python -m pytest tests -m chaos

check: $(READY) lint
	$(BIN)/python -m pytest -n auto tests/unit tests/property tests/architecture

lint: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(READY)
	$(BIN)/python -m benchmarks

gpu-check: $(READY)
	$(BIN)/python -m benchmarks.gpu_check

lock: $(READY)
	$(BIN)/uv pip compile pyproject.toml --extra dev --python-version 3.11 \
	  --no-emit-index-url --no-header --no-annotate --upgrade -o requirements.lock

clean:
	rm -rf $(VENV) .paceline .peers .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache

# torch comes first, by pip, so that a machine that offers a CPU build is listened to; then uv brings
# everything else to the locked versions.
$(READY): requirements.lock requirements-torch.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Python 3.11 or newer is needed: make PYTHON=python3.11 ..."; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' \
	  || { echo "Python's venv module is missing: apt-get install python3-venv"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip uv==0.13.9
	$(BIN)/pip install --quiet -r requirements-torch.txt
	$(BIN)/uv pip install --quiet --compile-bytecode -r requirements.lock
	$(BIN)/uv pip install --quiet --no-deps -e .
	touch $@

.PHONY: debian-packages
debian-packages:
	@tests/debian-packages.sh
