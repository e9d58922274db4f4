# Two commands: `make demo` shows what destage does, `make test` checks that it does it.

CARGO ?= cargo
OUT := out
TRACE := traces/own.oltp-pgbench-ext4.destage

.PHONY: demo test check soak fuzz bench validate reproduce wheel reference book advisories clean

# Which write buffer serves a real workload best? The trace is a recording of PostgreSQL under pgbench, on ext4.
demo:
	@sh scripts/need-tools
	$(CARGO) build --profile demo --locked -p destage
	@mkdir -p $(OUT)
	target/demo/destage trace stat $(TRACE)
	@echo
	target/demo/destage sim --scenario scenarios/demo.toml --json=$(OUT)/demo.json --csv=$(OUT)/demo.csv --report=$(OUT)/demo --timing >$(OUT)/demo.txt
	@cat $(OUT)/demo.txt
	@echo
	@echo "Wrote $(OUT)/demo.txt (the table above), $(OUT)/demo.json (every figure; \`target/demo/destage schema\`"
	@echo "explains the fields) and $(OUT)/demo.csv (a row per run). Change scenarios/demo.toml, or give flags, and run again."
	@echo
	@echo "Open $(OUT)/demo/index.html in a browser: which buffer, which size, what it costs in wear, what collection does."

# Formatting, lints, tests (of dependencies too), instruction counts. Installs what it needs; what it must skip is counted at the end.
test:
	@sh scripts/test

# Before each commit: format, lints and tests of what changed since the last one and of what depends on it, in three minutes.
check:
	@sh scripts/need-tools
	@scripts/check

# The same tests with many more random cases.
soak:
	DESTAGE_SOAK=1 $(CARGO) test --locked --profile soak --workspace --no-fail-fast

# Hostile input: every target 10^7 executions or 5 minutes, two to three hours in all; see docs/fuzzing.md.
fuzz:
	@sh scripts/need-tools
	@sh scripts/fuzz

# Speeds on one core; see docs/benchmarks.md.
bench:
	$(CARGO) bench --locked --workspace

# The simulator against theory and conservation laws, and beside others; the same bytes every time.
validate:
	@sh scripts/need-tools
	$(CARGO) build --release --locked -p destage
	target/release/destage validate --out docs/validation.md

# What the papers claim beside what destage measures: docs/reproduction.md is a page of it; all figures, the page of charts, claims.csv and the
# commit lie in out/reproduction. What was interrupted goes on. TRACES=DIR adds the papers' own traces.
REPRODUCED := $(OUT)/reproduction
reproduce:
	@sh scripts/need-tools
	$(CARGO) build --release --locked -p destage
	@mkdir -p $(REPRODUCED)
	target/release/destage reproduce all --resume $(OUT)/reproduction-runs --summary docs/reproduction.md --markdown=$(REPRODUCED)/reproduction.md --report=$(REPRODUCED) $(if $(TRACES),--traces $(TRACES))
	target/release/destage reproduce linux-caches --resume $(OUT)/reproduction-runs --markdown=docs/linux-caches.md
	git describe --always --dirty --abbrev=40 >$(REPRODUCED)/commit

# The Python package, for every Python from 3.11 on: out/wheels/destage-*.whl. `pip install .` builds and installs the same.
wheel:
	@sh scripts/need-tools
	@sh scripts/python-env target/venv-wheel maturin==1.16.0
	target/venv-wheel/bin/maturin build --locked --out $(OUT)/wheels

# docs/python-reference.md, from the docstrings of the package, and docs/reference, from what the program says.
reference:
	@sh scripts/need-tools
	@sh scripts/python-test --reference
	DESTAGE_WRITE_REFERENCE=1 $(CARGO) test --locked -p destage --test it reference_pages

# The documents as a site, in out/book. Needs mdBook: cargo install mdbook --locked.
book:
	mdbook build

# Known vulnerabilities; needs cargo-deny and the advisory database, hence the network.
advisories:
	$(CARGO) deny check advisories

clean:
	$(CARGO) clean
	rm -rf $(OUT)
