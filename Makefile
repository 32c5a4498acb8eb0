# Everything that is made here stays under the clone: .venv (the controller), .collections (the link by which Ansible finds the
# collection), .demo (the engine and what it serves), .docs (the site).
#
#   make demo          a wrong drafter config, measured, mended and measured again on the real engine
#   make demo KEEP=1   the same, and the good server stays up
#   make stop          end all that runs under .demo
#   make setup         only the controller, for .venv/bin/ansible-playbook
#   make test          lint, sanity, unit, world, engine, and the quick part of faults
#   make lint          ruff, mypy, yamllint, ansible-lint, shellcheck
#   make sanity        ansible-test sanity, with no rule ignored
#   make unit          the unit tests, and the roles and playbooks as plays that need no engine
#   make world         the collection as a tarball, under what AWX runs it with, and over the ansible-cores and Pythons that the machine has
#   make ansible-test  the unit tests and the integration targets by ansible-test, and the rest of the matrix of ansible-cores and Pythons
#   make engine        the real engine, driven by the playbooks
#   make faults        what befalls a fleet of real hosts, row by row; needs root and systemd-nspawn
#   make fleet         all that the fleet is used for, but what takes long
#   make test-long     what takes longer: real builds, every wrong value on the engine, servers on the fleet, reports in Chromium
#   make bench         every figure of docs/benchmarks.md, measured anew; BENCH=rerun for one part
#   make docs          the handbook and the reference as a site, .docs/html/index.html
#   make tested        all tests of real engines, hosts and browsers, and their record, docs/tested.md; more than an hour
#   make pages         write the pages of docs/ anew that are made of data
#   make clean         away with all of it

SHELL := /bin/bash
PYTHON ?= python3
BIN := .venv/bin
INVENTORY := inventories/localhost
PLAY = $(BIN)/ansible-playbook -i $(INVENTORY)
# Ends what a pid file tells of, and all that this started.
END = $(BIN)/ansible localhost -i $(INVENTORY) -m llmops.vllm.vllm_process -a
LINK := .collections/ansible_collections/llmops/vllm
export ANSIBLE_CONFIG := $(CURDIR)/ansible.cfg
export PATH := $(CURDIR)/$(BIN):$(PATH)

.DEFAULT_GOAL := help
.PHONY: help setup demo stop test test-long lint sanity unit world ansible-test engine quick-faults faults fleet bench docs pages tested check clean

help:
	@sed -n 's/^#   /  /p' Makefile

check:
	@PYTHON=$(PYTHON) requirements/check.sh

$(LINK):
	@mkdir -p $(@D) && ln -s ../../.. $@

.venv/controller: requirements/controller.txt requirements/constraints.txt | check
	@echo "Making .venv with ansible-core ..."
	@$(PYTHON) -m venv --clear .venv
	@$(BIN)/pip install --quiet --disable-pip-version-check -r requirements/controller.txt
	@touch $@

.venv/test: requirements/test.txt .venv/controller
	@echo "Adding the tools of the tests to .venv ..."
	@$(BIN)/pip install --quiet --disable-pip-version-check -r requirements/test.txt
	@touch $@

.venv/docs: requirements/docs.txt .venv/controller
	@echo "Adding the tools of the documentation to .venv ..."
	@$(BIN)/pip install --quiet --disable-pip-version-check -r requirements/docs.txt
	@touch $@

.venv/bench: requirements/bench.txt .venv/test
	@echo "Adding the tools of the benchmarks to .venv ..."
	@$(BIN)/pip install --quiet --disable-pip-version-check -r requirements/bench.txt
	@touch $@

setup: .venv/controller | $(LINK)

demo: .venv/controller | check $(LINK)
	@mkdir -p .demo
	@trap 'trap "" INT TERM; $(MAKE) --no-print-directory stop RUNNING="builds/*/install instances/compare-*/run/server"; exit 130' INT TERM; \
	$(PLAY) playbooks/compare.yml $(if $(KEEP),-e vllm_compare_keep=true)
ifdef KEEP
	@echo "The mended drafter serves. Try it, and end it with: make stop"
	@echo "  curl -s http://127.0.0.1:18500/v1/chat/completions -H 'Content-Type: application/json' \\"
	@echo "    -d '{\"model\": \"tiny\", \"messages\": [{\"role\": \"user\", \"content\": \"Recite chapter 3\"}], \"temperature\": 0}'"
endif

RUNNING ?= builds/*/install instances/*/run/server
stop: .venv/controller | $(LINK)
	@for pidfile in $(RUNNING:%=.demo/vllm/%.pid); do \
	  [ -e "$$pidfile" ] || continue; \
	  said=$$($(END) "state=stopped pidfile='$$PWD/$$pidfile'") || { echo "$$said"; exit 1; }; \
	  grep -q SUCCESS <<< "$$said" || echo "Ended what $$pidfile tells of."; \
	done

test: lint sanity unit world engine quick-faults

lint: .venv/test | $(LINK)
	ruff check .
	ruff format --check .
	mypy
	yamllint .
	ansible-lint
	antsibull-changelog lint
	shellcheck .ci/run requirements/check.sh tests/fleet/boot.sh

unit: .venv/test | $(LINK)
	pytest -n 2 tests/unit tests/plays

sanity: .venv/test | $(LINK)
	python tests/world/ansible_test.py sanity

world: .venv/test | $(LINK)
	pytest -n 2 tests/world tests/integration -m "not long"

ansible-test: .venv/test | $(LINK)
	python tests/world/ansible_test.py integration
	python tests/world/ansible_test.py units
	pytest -n 2 tests/world -m long

engine: .venv/test | check $(LINK)
	pytest tests/e2e -m "not long"

quick-faults: .venv/test | $(LINK)
	pytest tests/fleet/test_faults.py -m "not long"

faults: .venv/test | $(LINK)
	pytest tests/fleet/test_faults.py

fleet: .venv/test | $(LINK)
	pytest tests/fleet -m "not long"

test-long: .venv/test | check $(LINK)
	pytest tests/e2e tests/fleet tests/browser -m long

# The changelog of what is no release yet is made in a copy, as a release takes its fragments away.
docs: .venv/docs | $(LINK)
	rm -rf .docs
	mkdir -p -m 755 .docs/source/reference .docs/changelog
	cp docs/*.md docs/*.png .docs/source
	mv .docs/source/README.md .docs/source/index.md
	cp -r changelogs galaxy.yml .docs/changelog
	cd .docs/changelog && antsibull-changelog release && grep -v '^.. contents' CHANGELOG.rst > ../source/changelog.rst
	antsibull-docs lint-collection-docs --plugin-docs --validate-collection-refs self $(LINK)
	ANSIBLE_COLLECTIONS_PATH=.collections antsibull-docs --config-file docs/docsite/antsibull-docs.cfg collection --use-current \
	  --squash-hierarchy --cleanup everything --fail-on-error --dest-dir .docs/source/reference llmops.vllm
	sphinx-build -q -j auto -W --keep-going -c docs/docsite .docs/source .docs/html
	@echo "The site: .docs/html/index.html"

tested: .venv/test | check $(LINK)
	@pytest tests/e2e tests/fleet tests/browser tests/integration tests/world --record-tested; ended=$$?; $(MAKE) --no-print-directory pages; exit $$ended

pages: .venv/test | $(LINK)
	python tests/unit/docs/rendered.py

bench: .venv/bench | check $(LINK)
	PYTHONPATH=$(CURDIR)/.collections python -m ansible_collections.llmops.vllm.tests.bench $(BENCH)

clean: | $(LINK)
	@if [ -x $(BIN)/ansible-playbook ]; then $(MAKE) --no-print-directory stop; fi
	rm -rf .venv .collections .ansible .demo .docs
