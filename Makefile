PYTHON ?= python3.11
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
SOURCES := src tests benchmarks examples tools

# Tests start hundreds of processes: without bytecode files each process compiles all modules that it imports.
export PYTHONDONTWRITEBYTECODE :=

SECONDS ?= 240
# What is compiled: a change of it installs onchip again.
NATIVE := $(wildcard src/onchip/native/*.?pp src/onchip/native/CMakeLists.txt)

# What runs the native code, and neither compiles nor measures anything.
SANITIZED_TESTS := tests/native tests/model/test_layer_batch.py \
	tests/contract/test_packing.py \
	tests/contract/test_joint_workers.py tests/contract/test_one_order.py tests/contract/test_evictions.py \
	tests/memory/test_least_latency.py \
	tests/mapping/test_loma.py tests/memory/test_min_peak.py \
	tests/mapping/test_mapping_floors.py tests/mapping/test_mapping_bounds.py
# Of these, what takes longest there and calls nothing that the others do not call.
UNSANITIZED_TESTS := time_limit or runs_in_bands or the_first_floor or byte_for_byte or more_units_than or 400-

.PHONY: demo test test-long test-quarter test-minimum check develop wheel sdist sanitize adversary planted mutate extras micro opencl format bench bench-all frozen corpus figures docs docs-tools release clean

demo: $(VENV)/.installed
	$(BIN)/python -m onchip schedule "$$($(BIN)/python examples/light_model.py squeezenet)" --bits 8 --accelerator simba \
		--time-limit 10 -o squeezenet.schedule.json.gz --report squeezenet.html
	@echo "the page is squeezenet.html, the schedule squeezenet.schedule.json.gz"

# PYTEST_OPTIONS: `--torch-smoke` runs one tenth of the tests that need torch.
test: $(VENV)/.installed-test
	$(BIN)/python -m pytest -n auto --dist worksteal -m "not slow" $(PYTEST_OPTIONS)

# The pictures of the documentation, from answers of onchip: about two minutes.
figures: $(VENV)/.installed-test
	PYTHONPATH=tools $(BIN)/python tools/make_figures.py

# All slow tests: the tests of most of the processor time, and long series of cases.
test-long: $(VENV)/.installed-test
	$(BIN)/python -m pytest -n auto -m slow

# One quarter of the slow tests: QUARTER is 0, 1, 2 or 3.
test-quarter: $(VENV)/.installed-test
	$(BIN)/python -m pytest -n auto -m slow --quarter $(QUARTER) $(PYTEST_OPTIONS)

# All tests but the slow ones, with the oldest version that pyproject.toml admits of each dependency.
test-minimum:
	$(PYTHON) -m venv build/minimum
	build/minimum/bin/python -m pip install --quiet --disable-pip-version-check uv
	build/minimum/bin/uv pip install --quiet --python build/minimum --resolution lowest-direct \
		'.[report,run,tflite]' 'hypothesis>=6.100' 'pytest>=8.3' 'pytest-xdist>=3.6'
	build/minimum/bin/python -m pytest -n auto -m "not slow"

check: $(VENV)/.installed-test
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/clang-format --dry-run --Werror $(filter %pp,$(NATIVE))
	$(BIN)/mypy src tests benchmarks examples
	$(BIN)/lint-imports --no-cache

# Compiles what has changed, in place.
develop: $(VENV)/.installed-test

# A wheel for this platform and Python 3.11 or later, which installs without a compiler.
wheel: $(BIN)/python
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .

sdist: $(BIN)/python
	$(PIP) build
	$(BIN)/python -m build --sdist --outdir dist .

docs-tools: $(VENV)/.installed
	$(PIP) $$($(BIN)/python tools/requirements.py docs report)

# The site, in build/site: no broken link, no public name without documentation, tables as in benchmarks/results.
docs: docs-tools
	$(BIN)/python benchmarks/pages.py --check
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# What a release consists of, in dist: sdist, wheel and site, each checked.
release: docs
	rm -rf dist
	$(PIP) build twine
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python -m twine check --strict dist/*
	tar -czf dist/onchip-site.tar.gz -C build site
	$(BIN)/python tools/check_release.py dist

# A second build whose every access is checked, outside the sources, and the tests that run its code.
build/sanitized/.installed: $(BIN)/python $(NATIVE)
	rm -rf build/sanitized
	$(PIP) --no-deps --target build/sanitized --config-settings=cmake.define.ONCHIP_SANITIZE=ON \
		--config-settings=cmake.build-type=RelWithDebInfo --config-settings=install.strip=false .
	touch $@

sanitize: $(VENV)/.installed-test build/sanitized/.installed
	rm -f build/sanitized/report.*
	LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libstdc++.so)" \
	ASAN_OPTIONS=detect_leaks=0:log_path=$(CURDIR)/build/sanitized/report \
	UBSAN_OPTIONS=print_stacktrace=1:log_path=$(CURDIR)/build/sanitized/report \
	PYTHONPATH=build/sanitized:tests $(BIN)/python -m pytest -p support.sanitized -n auto -m "not slow" \
		-k "not ($(UNSANITIZED_TESTS))" $(SANITIZED_TESTS) || { cat build/sanitized/report.* 2>/dev/null; exit 1; }

# Fresh random cases at every level, held against oracles: `make adversary SECONDS=3600` is the long run.
adversary: $(VENV)/.installed-test
	PYTHONPATH=tests $(BIN)/python -m adversary --seconds $(SECONDS) $(if $(SEED),--seed $(SEED)) $(if $(LEVELS),--levels $(LEVELS))

# Plants faults one at a time, and shows that the adversary finds each.
planted: $(VENV)/.installed-test
	PYTHONPATH=tests $(BIN)/python -m adversary.plant

# Makes every module of the verifier wrong in one thing at a time, and lists what no test finds out (docs/adversary.md).
mutate: $(VENV)/.installed-test
	PYTHONPATH=tests $(BIN)/python -m mutation

format: $(VENV)/.installed-test
	$(BIN)/ruff format $(SOURCES)
	$(BIN)/ruff check --fix $(SOURCES)
	$(BIN)/clang-format -i $(filter %pp,$(NATIVE))

# Models that nobody here wrote, through every verb; fetched into `corpus`, or made there in an environment of its own.
corpus: extras
	$(BIN)/python benchmarks/corpus.py --folder corpus --json corpus/corpus.json --page docs/benchmarks/corpus.md

# Minutes: COSMA's human-designed and NAS networks, packing.
bench: $(VENV)/.installed
	PYTHONPATH=benchmarks $(BIN)/python -m cosma --section human nas peaks
	$(BIN)/python benchmarks/packing.py
	$(BIN)/python benchmarks/overflow.py
	PYTHONPATH=benchmarks $(BIN)/python -m thesis.pinning --tensors capped

# All tables on plans and packings: about half an hour.
bench-all: $(VENV)/.installed-test
	PYTHONPATH=benchmarks $(BIN)/python -m cosma
	$(BIN)/python benchmarks/packing.py
	$(BIN)/python benchmarks/overflow.py
	PYTHONPATH=benchmarks $(BIN)/python -m thesis.pinning
	PYTHONPATH=benchmarks $(BIN)/python -m thesis.pinning --speed-ups

# Deterministic and proven figures again, held against those that are kept: about a quarter of an hour.
frozen: $(VENV)/.installed-test
	PYTHONPATH=benchmarks $(BIN)/python -m frozen

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(BIN)/python pyproject.toml constraints.txt $(NATIVE)
	$(PIP) --editable '.[report,run]'
	touch $@

# What extras need is installed without onchip, which would be compiled again.
$(VENV)/.installed-test: $(VENV)/.installed
	$(PIP) $$($(BIN)/python tools/requirements.py test)
	touch $@

extras: $(VENV)/.installed-test
	$(PIP) $$($(BIN)/python tools/requirements.py torch executorch)

# What plans of arenas are shown on, and a peer: their own wheels, so that nothing is compiled again.
micro: $(VENV)/.installed-test
	$(PIP) --pre $$($(BIN)/python tools/requirements.py tflm)
	$(PIP) $$($(BIN)/python tools/requirements.py vela)

# What runs kernels of OpenCL, on the processor with pocl (on Debian: apt install pocl-opencl-icd).
opencl: $(VENV)/.installed-test
	$(PIP) $$($(BIN)/python tools/requirements.py opencl)

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
