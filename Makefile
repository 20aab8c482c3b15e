# The targets that people and CI use. Everything runs without a terminal, without standard input, and with HOME unset.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.ONESHELL:
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

export HOME := $(or $(HOME),/root)
export GOFLAGS := -buildvcs=false
GO ?= go
# Tests give mounts and temporary files their own modes; files of the build are for everybody.
UMASK := umask 022

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo 0.1.0-dev)
STATICCHECK_VERSION := v0.8.2
STATICCHECK := $(CURDIR)/.tools/staticcheck-$(STATICCHECK_VERSION)
# Tests that are made once more over the classic transport: the first time, they go by io_uring where it can be switched on.
# OFF are those that are made once more without passthrough, so that reads and writes come to the daemon, as they do for everybody who is not root.
CLASSIC := ^(TestPosix|TestTools|TestKill.*|TestGuard.*|TestNoLostUpdate|TestOpen.*|TestTailFollows|TestWatcher.*|TestMoveIsSeenByWatchers)$$
OFF := ^(TestPosix|TestTools|TestKill.*|TestDaemonKilled.*|TestGuard.*|TestNoLostUpdate|TestOpen.*|TestTailFollows|TestWatcher.*|TestMoveIsSeenByWatchers|TestHunt|TestSharing|TestListing.*|TestWriteTakes.*)$$
UNIT := $(addsuffix /...,$(wildcard ./cas ./cmd ./fs ./guard ./journal ./tasktree))

# Quick figures are for the terminal only: they do not belong into the page.
BENCH ?=
BENCH_DOC ?= $(if $(filter quick,$(BENCH)),,$(CURDIR)/docs/performance.md)
BENCH_RUN = TTFS_BINARY="$(CURDIR)/ttfs" BENCH="$(BENCH)" BENCH_DOC="$(BENCH_DOC)" BENCH_LOAD="$$(cut -d ' ' -f 1-3 /proc/loadavg)" \
	$(GO) test -count=1 -timeout 120m ./integration/bench -run '^$$' -benchtime 1x

FUZZTIME ?= 1h

.PHONY: all build run check tools static unit integration bench benchstat profile nightly demo clean
all: build

build: ## ./ttfs
	@$(UMASK)
	$(GO) build -ldflags '-X main.version=$(VERSION)' -o ttfs ./cmd/ttfs

run: build ## make run DIR=~/project CMD='claude' [AGENT=NAME]: CMD as an agent inside DIR
	@.ci/fuse
	export CMD="$${CMD-$${SHELL:-/bin/sh}}"
	cd "$(or $(DIR),.)"
	exec "$(CURDIR)/ttfs" run $(if $(AGENT),--agent "$(AGENT)") -- /bin/sh -c "$$CMD"

check: tools static unit integration ## all that CI runs

tools: ## Debian packages that the tests use, if they are missing
	@.ci/tools integration/tools.txt

static: $(STATICCHECK)
	@unformatted=$$(gofmt -l $$(git ls-files -co --exclude-standard '*.go' 2>/dev/null || find . -name '*.go' -not -path './.tools/*') </dev/null)
	if [ -n "$$unformatted" ]; then echo "not gofmt'ed:" $$unformatted; exit 1; fi
	$(GO) vet ./...
	$(STATICCHECK) ./...

$(STATICCHECK):
	@$(UMASK)
	mkdir -p .tools
	for try in 1 2 3; do
		if GOBIN="$(CURDIR)/.tools" $(GO) install honnef.co/go/tools/cmd/staticcheck@$(STATICCHECK_VERSION); then break; fi
		if [ $$try = 3 ]; then exit 1; fi
		sleep 5
	done
	mv .tools/staticcheck "$@"

unit: ## tests without the binary
	@$(UMASK)
	$(GO) test -race -timeout 10m $(UNIT)

integration: build ## the built binary on real mounts
	@$(UMASK)
	TTFS_BINARY="$(CURDIR)/ttfs" $(GO) test -count=1 -timeout 20m ./integration/...
	TTFS_TRANSPORT=classic TTFS_BINARY="$(CURDIR)/ttfs" $(GO) test -count=1 -timeout 20m ./integration -run '$(CLASSIC)'
	TTFS_PASSTHROUGH=off TTFS_BINARY="$(CURDIR)/ttfs" $(GO) test -count=1 -timeout 20m ./integration -run '$(OFF)'

bench: build tools ## the tables of docs/performance.md; BENCH=quick prints them only; ONLY=Calls is one of them
	@$(UMASK)
	.ci/tools integration/bench/peers.txt || true # a peer that is missing is a column that says so
	$(BENCH_RUN) -bench '$(or $(ONLY),.)' -skip Profile

benchstat: ## make benchstat BASE=rev [ROUNDS=10]: Go benchmarks of the engine, journal, guard and transport at a commit and here, compared
	@$(UMASK)
	.ci/benchstat "$(or $(BASE),HEAD~1)" $(ROUNDS)

profile: build tools ## one busy minute: where its time goes, for docs/performance.md
	@$(UMASK)
	$(BENCH_RUN) -bench Profile

nightly: build tools ## the same tests for hours: a million operations, a thousand crashes, each fuzz target for FUZZTIME
	@$(UMASK)
	export TTFS_NIGHTLY=1
	log=$$(mktemp)
	trap 'rm -f "$$log"' EXIT
	$(GO) test -v -timeout 6h $(UNIT) 2>&1 | tee "$$log"
	.ci/fuzz $(FUZZTIME) $(UNIT)
	for transport in auto classic; do
		TTFS_TRANSPORT=$$transport TTFS_BINARY="$(CURDIR)/ttfs" $(GO) test -v -count=1 -timeout 6h ./integration/... 2>&1 | tee -a "$$log"
		TTFS_PASSTHROUGH=off TTFS_TRANSPORT=$$transport TTFS_BINARY="$(CURDIR)/ttfs" $(GO) test -v -count=1 -timeout 6h ./integration -run '$(OFF)' 2>&1 | tee -a "$$log"
	done
	.ci/counts "$$log"

demo: build ## one minute: three tasks, a branch, undo, redo, a crash, a remount
	@docs/demo.sh "$(CURDIR)/ttfs"

clean:
	rm -rf ttfs .tools bin
