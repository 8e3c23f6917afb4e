# Every target sets up what it needs in .venv by itself; Python 3.11+ and make are enough.
# All versions come from constraints.txt, which only `make lock` writes.
PYTHON ?= python3
BIN := .venv/bin
PIP := -m pip --disable-pip-version-check --quiet
INSTALL := $(BIN)/python $(PIP) install --constraint constraints.txt --editable

.PHONY: help demo serve reproduce leaderboard test test-nojit coverage check docs format lock openapi release bench clean
help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 14

.venv/base: pyproject.toml constraints.txt src/graphbandit/__init__.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "graphbandit needs Python 3.11 or newer")'
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "installing graphbandit into .venv ..."
	@$(INSTALL) '.[plots]'
	@touch $@

.venv/serve: .venv/base
	@$(INSTALL) '.[plots,serve]'
	@touch $@

.venv/test: .venv/base
	@$(INSTALL) '.[plots,test]'
	@touch $@

.venv/docs: .venv/base
	@$(INSTALL) '.[plots,docs]'
	@touch $@

.venv/check: .venv/test
	@$(INSTALL) '.[plots,test,check]'
	@touch $@

demo: .venv/base  ## six algorithms on a random graph: a table and a plot, in under a minute
	$(BIN)/graphbandit demo

serve: .venv/serve  ## the service with a simulated population, at http://127.0.0.1:8000/; ARGS='--port 9000' is passed on
	$(BIN)/graphbandit serve --demo $(ARGS)

reproduce: .venv/base  ## every figure and claim of the paper, as a report; ARGS='--quick' or ARGS='--data DIR' is passed on
	$(BIN)/graphbandit reproduce --out report $(ARGS)

leaderboard: .venv/base  ## every policy, tuned alike, in 19 worlds; ARGS='--quick' or ARGS='--data DIR' is passed on
	$(BIN)/graphbandit leaderboard --out board $(ARGS)

test: .venv/test  ## the whole test suite
	$(BIN)/python -m pytest -n 2

KERNELS := tests/compute tests/solvers tests/policies
NOJIT := NUMBA_DISABLE_JIT=1 $(BIN)/python -m
test-nojit: .venv/test  ## the tests of the kernels as plain Python, without compilation; at most five minutes
	$(NOJIT) pytest -n 2 -m 'not compiled' $(KERNELS)

coverage: .venv/test  ## the same in one process, and which lines of the kernels it does not reach
	$(NOJIT) coverage run -m pytest -m 'not compiled' $(KERNELS)
	$(BIN)/python -m coverage report --skip-covered --show-missing

check: .venv/check  ## format, lint, strict types, import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: .venv/docs  ## the documentation site, with its tutorials run; warnings are errors
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs build/docs
	@echo "open build/docs/index.html"

format: .venv/check  ## rewrite the sources in the project's format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

LOCK := build/lock
lock:  ## write constraints.txt: the newest version of everything; needs Python 3.11, the oldest supported
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11) and "use make lock PYTHON=python3.11")'
	@rm -rf $(LOCK) && $(PYTHON) -m venv $(LOCK)
	@echo "resolving in $(LOCK) ..."
	@$(LOCK)/bin/python $(PIP) install --editable '.[plots,test,check,docs,release]'
	@echo '# Exact versions of everything that `make` installs. Written by `make lock` with Python 3.11.' > $(LOCK)/new.txt
	@$(LOCK)/bin/python $(PIP) freeze --exclude graphbandit >> $(LOCK)/new.txt
	@mv $(LOCK)/new.txt constraints.txt && rm -rf $(LOCK)
	@git --no-pager diff --stat constraints.txt

.venv/release: .venv/base
	@$(INSTALL) '.[plots,release]'
	@touch $@

release: .venv/release  ## build both distributions into build/dist, check them, and try the wheels in a clean environment
	$(BIN)/python tools/release.py

openapi: .venv/serve  ## write docs/reference/openapi.json: the HTTP API for clients in other languages
	$(BIN)/python tools/write_openapi.py

bench: .venv/base  ## microseconds a round and memory of every policy, up to a million users
	$(BIN)/python benchmarks/rounds.py

clean:  ## remove everything that the targets above made
	rm -rf .venv build report results board .coverage
	find . -name __pycache__ -prune -exec rm -rf {} +
