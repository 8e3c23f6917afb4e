# Every target sets up what it needs in .venv by itself; Python 3.11+ and make are enough.
# All versions come from constraints.txt, which only `make lock` writes.
# Two installations share .venv: `user` is what the commands need, `dev` adds every extra and every tool.
PYTHON ?= python3
BIN := .venv/bin
PIP := -m pip --disable-pip-version-check --quiet
INSTALL := $(BIN)/python $(PIP) install --no-compile --constraint constraints.txt --editable
unexport PYTHONDONTWRITEBYTECODE  # --no-compile leaves compilation to the first import, which must be able to keep it

.PHONY: help demo serve reproduce leaderboard test test-slow test-nojit coverage check docs format lock openapi release fresh bench results clean
help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 14

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "graphbandit needs Python 3.11 or newer")'
	@$(PYTHON) -m venv .venv

.venv/user: $(BIN)/python pyproject.toml constraints.txt
	@echo "installing graphbandit into .venv ..."
	@$(INSTALL) '.[plots,serve]'
	@touch $@

.venv/dev: $(BIN)/python pyproject.toml constraints.txt
	@echo "installing graphbandit and its development tools into .venv ..."
	@$(INSTALL) '.[dev]'
	@touch .venv/user $@

demo: .venv/user  ## six algorithms on a random graph: a table and a plot, in under a minute
	$(BIN)/graphbandit demo

serve: .venv/user  ## the service with a simulated population, at http://127.0.0.1:8000/; ARGS='--port 9000' is passed on
	$(BIN)/graphbandit serve --demo $(ARGS)

reproduce: .venv/user  ## the paper's figures and claims as a report; downloads MovieLens; ARGS='--quick', '--offline' or '--data DIR' is passed on
	$(BIN)/graphbandit reproduce --out report $(ARGS)

leaderboard: .venv/user  ## every policy, tuned alike, in 19 worlds; ARGS='--quick' or ARGS='--data DIR' is passed on
	$(BIN)/graphbandit leaderboard --out board $(ARGS)

test: .venv/dev  ## every test but the slow studies
	$(BIN)/python -m pytest -n 2 --no-loadscope-reorder --max-worker-restart 0 $(ARGS)

test-slow: .venv/dev  ## studies of load, kills and sizes
	$(BIN)/python -m pytest -m slow -o faulthandler_timeout=3600 $(ARGS)

KERNELS := tests/compute tests/solvers tests/policies
NOJIT := NUMBA_DISABLE_JIT=1 $(BIN)/python -m
test-nojit: .venv/dev  ## the tests of the kernels as plain Python, without compilation; at most five minutes
	$(NOJIT) pytest -n 2 -m 'not compiled and not slow' $(KERNELS)

coverage: .venv/dev  ## the same in one process, and which lines of the kernels it does not reach
	$(NOJIT) coverage run -m pytest -m 'not compiled and not slow' $(KERNELS)
	$(BIN)/python -m coverage report --skip-covered --show-missing

check: .venv/dev  ## format, lint, strict types, import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: .venv/dev  ## the documentation site, with its tutorials run; warnings are errors
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs build/docs
	@echo "open build/docs/index.html"

format: .venv/dev  ## rewrite the sources in the project's format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

LOCK := build/lock
lock:  ## write constraints.txt: the newest version of everything; needs Python 3.11, the oldest supported
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11) and "use make lock PYTHON=python3.11")'
	@rm -rf $(LOCK) && $(PYTHON) -m venv $(LOCK)
	@echo "resolving in $(LOCK) ..."
	@$(LOCK)/bin/python $(PIP) install --editable '.[dev]'
	@echo '# Exact versions of everything that `make` installs. Written by `make lock` with Python 3.11.' > $(LOCK)/new.txt
	@$(LOCK)/bin/python $(PIP) freeze --exclude graphbandit >> $(LOCK)/new.txt
	@mv $(LOCK)/new.txt constraints.txt && rm -rf $(LOCK)
	@git --no-pager diff --stat constraints.txt

release: .venv/dev  ## build both distributions into build/dist, check them, and try the wheels in a clean environment
	$(BIN)/python tools/release.py

fresh:  ## run every target from a clone of its own, with nothing installed or cached; ARGS='test docs' names targets
	$(PYTHON) tools/fresh.py $(ARGS)

openapi: .venv/dev  ## write docs/reference/openapi.json: the HTTP API for clients in other languages
	$(BIN)/python tools/write_openapi.py

bench: .venv/dev  ## microseconds a round and memory of every policy, up to a million users; ARGS='--users 20' is passed on
	$(BIN)/python benchmarks/rounds.py $(ARGS)

results: .venv/dev  ## measure everything that the site shows, which takes hours and can be resumed; QUICK=1 is a small version; ARGS='late kill' names studies
	$(BIN)/python benchmarks/results.py $(if $(QUICK),--quick) $(ARGS)

clean:  ## remove everything that the targets above made
	rm -rf .venv build report results board .coverage
	find . -name __pycache__ -prune -exec rm -rf {} +
