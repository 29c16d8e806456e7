# Shortcuts for developers; users need none of them.
PYTHON = .venv/bin/python

.venv:
	python3 -m venv .venv
	.venv/bin/pip install -q -e '.[test]'

.PHONY: test extended lint format fresh pyz bench
test: .venv
	$(PYTHON) -m pytest

extended: .venv
	$(PYTHON) -m pytest -m extended -n 3 --dist loadfile

lint: .venv
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy

format: .venv
	$(PYTHON) -m ruff check --fix .
	$(PYTHON) -m ruff format .

fresh:
	.ci/fresh

pyz: .venv
	.venv/bin/envcheck pyz

bench: .venv
	.venv/bin/pip install -q -e '.[bench]'
	.venv/bin/envcheck provision --device cpu --yes
	$(PYTHON) benchmarks/run.py
