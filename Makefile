# Shortcuts for developers; users need none of them.
PYTHON = .venv/bin/python

.venv:
	python3 -m venv .venv
	.venv/bin/pip install -q -e '.[test]'

.PHONY: messages test extended lint format dist fresh pyz bench docs
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

messages: .venv
	$(PYTHON) -m envcheck.cli.message_catalogue update
	$(PYTHON) -m envcheck.cli.message_catalogue compile

dist:
	.ci/dist

fresh:
	.ci/fresh

pyz: .venv
	.venv/bin/envcheck pyz

docs: .venv
	$(PYTHON) -m envcheck.cli.docs
	$(PYTHON) -m mkdocs build --strict

bench: .venv
	.venv/bin/pip install -q -e '.[bench]'
	.venv/bin/envcheck provision --device cpu --yes
	$(PYTHON) -m benchmarks.run
