# Fairlead. Two commands matter: `make up` runs the whole product, `make test` passes every test.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help up build-agent vuln test test-fairlead test-kubernetes test-running test-beside race e2e smoke checklist states chaos replicas skew faults stacks signatures nodes soak fleet attack bench figures screenshots gen manifests fmt lint check build images release release-twice kubelocal nodelocal install tidy clean

MODULES  := gen platform deploy web services/agent services/console services/distributor services/gitcache services/tunnel cli e2e
PACKAGES := $(foreach m,$(MODULES),fairlead.dev/$(m)/...)
VERSION  := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
# ARGS are handed to what a target starts: make up ARGS=--empty, make test ARGS="-run TestShip -v".
ARGS     ?=
# Programs, tests and tools are compiled in one way, so that each package is compiled once. The race detector alone needs cgo.
export CGO_ENABLED := 0
export GOFLAGS := $(filter-out -trimpath -toolexec=%,$(shell go env GOFLAGS)) -trimpath $(if $(word 2,$(CURDIR)),,-toolexec=$(CURDIR)/tools/compile.sh)
GOBUILD  := go build -ldflags "-s -w -X fairlead.dev/platform/version.Version=$(VERSION)"
# Downloads the modules that packages need, many at once: go build takes as many at once as there are processors.
DOWNLOAD := GOMAXPROCS=16 go list -deps
# Whether ARGS ask for the short form of the tests.
SHORT    := $(filter -short -short=true --short,$(ARGS))
# Two packages at a time, because each starts whole clusters; never from the cache, which doesn't know bin/. `make
# lint` vets them. The short form is the root package alone: one product whose clusters all its tests share.
E2E       = go test -count=1 -vet=off -p 2 -timeout 60m $(ARGS) fairlead.dev/e2e$(if $(SHORT),,/...)
# What the short form leaves out, in words.
LEFT_OUT := what the modules' tests need other servers or more than some seconds for, the other packages across services (e2e/...), the local Kubernetes, real nodes, the pages and what people do in a browser, images and manifests
# Tells how long a part of `make test` took.
STEP     := tools/step.sh
PROGRAMS := console gitcache distributor tunnel agent
# What the command has in it and is compiled while its pages are built; what is wrong with it the build of the command says.
WITHOUT_PAGES := ./services/gitcache ./services/distributor ./services/tunnel ./services/console/internal/store
# Of the simulated fleet.
CLUSTERS ?= 1000
SERVICES ?= 30
DURATION ?= 4m

help: ## Show this list
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-13s %s\n", $$1, $$2}' Makefile

# The command with the hub in it is built first; tools/up.sh builds what the clusters need while the hub is up already.
up: ## Run the whole product with two local Kubernetes clusters (ARGS=--empty starts clean)
	@mkdir -p bin
	@echo "1 of 3: build the pages and the command, which has the hub in it (2 to 3 minutes the first time, then seconds)" >&2
	@tools/web.sh & web=$$!; [ -e bin/fairlead ] || { $(DOWNLOAD) ./cli/cmd/fairlead >/dev/null || :; go build $(WITHOUT_PAGES) 2>/dev/null || :; }; wait $$web
	@$(GOBUILD) -o bin/fairlead ./cli/cmd/fairlead
	@echo "2 of 3: start the hub and its Git server (seconds); 3 of 3: build Kubernetes and the agent (about 6 minutes the first time, then seconds), and have the clusters join" >&2
	@exec bin/fairlead up --prepare tools/up.sh --nodelocal "$$(tools/nodelocal/build.sh --path)" $(ARGS)

# One command for all of them: what one of them links alone is compiled while another is linked.
build: ## Build all deployables into bin/
	@mkdir -p bin
	@echo "build web, $(PROGRAMS) agent-render fairlead" >&2
	@tools/web.sh & web=$$!; [ -e bin/fairlead ] || $(DOWNLOAD) -test $(PACKAGES) >/dev/null || :; wait $$web
	@$(GOBUILD) -o bin/ $(foreach s,$(PROGRAMS),./services/$s/cmd/$s) ./services/agent/cmd/agent-render ./cli/cmd/fairlead

# The agent and what renders for it.
build-agent:
	@mkdir -p bin
	@echo "build agent agent-render" >&2
	@$(GOBUILD) -o bin/ ./services/agent/cmd/agent ./services/agent/cmd/agent-render

images: ## Make the container images (ARGS=-try-out: also those of docker-compose.yml; PLATFORMS=linux/amd64,linux/arm64)
	@tools/web.sh
	@kubelocal=; case " $(ARGS) " in *try-out*) kubelocal=$$(tools/kubelocal/build.sh);; esac; \
	cd tools/images && KUBELOCAL=$$kubelocal GOWORK=off go run . -root ../.. -out ../../bin/images $(if $(PLATFORMS),-platforms $(PLATFORMS)) $(ARGS)

release: ## Make a release of the tag at HEAD, in bin/release (KEY=FILE signs it; ARGS=-try makes one without a tag)
	@tools/web.sh
	@cd tools/images && GOWORK=off go run . release -root ../.. -out ../../bin/release $(if $(KEY),-key $(abspath $(KEY))) $(ARGS)

release-twice: ## Make a release here and in a copy elsewhere, and compare all but signatures and provenance (six platforms: long the first time)
	@tools/release-twice.sh $(ARGS)

kubelocal: ## Build the local Kubernetes (some minutes the first time, then cached)
	@tools/kubelocal/build.sh

nodelocal: ## Build real nodes for it, which `make up` takes then (some minutes the first time, then cached; as root)
	@tools/nodelocal/build.sh

install: ## Install what the tests need
	@tools/install.sh

test: ## Run every test, after installing what the tests need (ARGS=-short: the quick ones, in minutes, and no module's again that passed and has not changed)
	@$(STEP) --begin
	@$(if $(SHORT),echo "== the short form leaves out $(LEFT_OUT): \`make test\` without -short runs them")
	@$(STEP) "install what the tests need" tools/install.sh
	@$(MAKE) --no-print-directory -j 2 test-fairlead test-kubernetes
	@$(MAKE) --no-print-directory -j 2 test-running $(if $(SHORT),,test-beside)
	@$(STEP) --end
	@$(if $(SHORT),echo "== left out by -short: $(LEFT_OUT)")

# Parts of `make test`. Side by side, because one downloads or links while the other compiles.
test-fairlead:
	@$(STEP) "build Fairlead" $(MAKE) --no-print-directory build
test-kubernetes:
	@$(STEP) "build Kubernetes" tools/kubelocal/build.sh

# The short form has no registry, S3 server, Vault, Redis or PostgreSQL, and Kubernetes only across services:
# platform/longform marks the tests that need more. What has not changed since it passed isn't run again in the same form.
#
# The tests that run programs wait much, and compute little; the steps beside them compute only, at a low
# priority. A test that needs a program of those steps (the registry, Vault, the nodes', the Collector, docker compose) waits until it is built. A step
# that fails doesn't keep the next ones from being tried.
test-running:
	@KUBELOCAL=$$(tools/kubelocal/build.sh); export KUBELOCAL; failed=0; \
	$(STEP) "test modules" go test -vet=off -timeout 60m $(ARGS) $(filter-out fairlead.dev/e2e/...,$(PACKAGES)) || failed=1; \
	$(STEP) "test across services" $(E2E) || failed=1; \
	export GOWORK=off; \
	$(if $(SHORT),,$(STEP) "test the local Kubernetes" go -C tools/kubelocal test -timeout 30m ./internal/... || failed=1; \
	$(STEP) "test real nodes" go -C tools/nodelocal test -vet=off -timeout 40m ./... || failed=1;) \
	exit $$failed

# The first programs are those that the modules' tests need.
test-beside:
	@$(STEP) "build the registry" nice tools/registrylocal/build.sh
	@$(STEP) "build the S3 server" nice tools/s3local/build.sh
	@$(STEP) "build Vault" nice tools/vaultlocal/build.sh
	@if [ "$$(id -u)" = 0 ]; then $(STEP) "build the nodes' programs" nice tools/nodelocal/build.sh; $(STEP) "build Traefik" nice tools/ingresslocal/build.sh; else echo "== real nodes are left out: they need root"; fi
	@$(STEP) "build the Collector" nice tools/collector/build.sh
	@$(STEP) "build docker compose" nice tools/docker/build.sh
	@$(STEP) "test the pages" nice tools/web.sh --test
	@$(STEP) "look at what modules link" nice tools/checks.sh
	@export GOWORK=off; \
	$(STEP) "test figures" nice go -C tools test -vet=off ./figures; \
	$(STEP) "test images" nice go -C tools/images test -vet=off -timeout 60m .; \
	$(STEP) "test manifests" nice go -C tools/manifests test -vet=off -timeout 40m ./...

race: install build ## Run the tests under the race detector
	@KUBELOCAL=$$(tools/kubelocal/build.sh) && VAULTLOCAL=$$(tools/vaultlocal/build.sh) && REGISTRYLOCAL=$$(tools/registrylocal/build.sh) && S3LOCAL=$$(tools/s3local/build.sh) && export KUBELOCAL VAULTLOCAL REGISTRYLOCAL S3LOCAL; \
	CGO_ENABLED=1 go test -race -timeout 40m $(ARGS) $(filter-out fairlead.dev/e2e/...,$(PACKAGES)); \
	$(E2E)

e2e: install build ## Run only the tests across services
	@KUBELOCAL=$$(tools/kubelocal/build.sh) $(E2E)

smoke: build ## A commit travels to two clusters, on built binaries; prints how long it took
	@KUBELOCAL=$$(tools/kubelocal/build.sh) go run fairlead.dev/e2e/cmd/smoke $(ARGS)

checklist: install build ## kubectl through the tunnel in full size: 1 GB both ways, 100,000 aborted requests; clients of others for 15 minutes; each chart of e2e/charts as a package, too (some 50 minutes)
	@export KUBELOCAL=$$(tools/kubelocal/build.sh) REGISTRYLOCAL=$$(tools/registrylocal/build.sh); go test -count=1 -v -timeout 120m fairlead.dev/e2e/tunnel -args -long $(ARGS) && \
	go test -count=1 -v -timeout 60m -run '^TestKubernetesClientsSeeNoDifference$$' fairlead.dev/e2e/foreign -args -long && \
	go test -count=1 -v -timeout 60m -run '^TestCharts$$' fairlead.dev/e2e/charts -args -packages

states: install build ## Each page where something is wrong: no network, refused, not there, an empty hub, a hub that restarts, a session that ends
	@STATES=1 SHOTS=$(SHOTS) go test -count=1 -v -vet=off -timeout 30m -run '^TestPersonIsToldWhatIsWrongOnEachPageInABrowser$$' fairlead.dev/e2e

chaos: install build ## Twenty rounds of faults over three gitcaches (ARGS="-seed N" repeats a run)
	@go test -count=1 -v -timeout 60m -run '^TestOneFetcherAndRightBytesWhateverHappens$$' fairlead.dev/e2e/gitcache -args -long $(ARGS)

replicas: install build ## Thirty rounds of kills over two consoles on PostgreSQL, judged against a model
	@go test -count=1 -v -timeout 30m -run '^TestNothingIsLostWhoeverDies$$' fairlead.dev/e2e/replicas -args -long $(ARGS)

skew: install build ## Each order of an upgrade from two earlier commits, there and back (some 15 minutes)
	@KUBELOCAL=$$(tools/kubelocal/build.sh) go test -count=1 -v -timeout 90m fairlead.dev/e2e/skew -args -long $(ARGS)

faults: install build ## Links that lose one direction, between all pairs; few descriptors (some 15 minutes, as root; ARGS="-only 'redis to'")
	@KUBELOCAL=$$(tools/kubelocal/build.sh) go test -count=1 -v -timeout 90m fairlead.dev/e2e/faults -args -long $(ARGS)

stacks: install build ## The compose stack with two of each: one of everything dies, then the others, while agents ask (some 8 minutes, as root)
	@KUBELOCAL=$$(tools/kubelocal/build.sh) go test -count=1 -v -timeout 60m -run '^TestStacks$$' fairlead.dev/e2e/compose -args -long $(ARGS)

signatures: install ## What Sigstore's and Notation's own libraries say of the same signatures (some minutes: both are compiled)
	@GOWORK=off go -C tools/signatures test -count=1 -timeout 40m ./... $(ARGS)

nodes: install build ## Charts, docs and faults on real nodes: install.md word by word, any user, upgrades, pulls with a password, streams through an ingress and a Gateway, autoscaling by metrics-server, 1,000 simulated clusters within the charts' limits, power and networks cut (some 75 minutes, and builds of Traefik and metrics-server the first time, as root; ARGS="-rounds 40 -copy-mib 5120 -stream-for 1h -halfway-for 1h")
	@KUBELOCAL=$$(tools/kubelocal/build.sh) go test -count=1 -v -timeout 600m -parallel 1 -skip '^Test(ChartsShipToRealPodsAndSurviveAPowerCut|UpRunsTheSampleOnARealNode)$$' fairlead.dev/e2e/nodes -args -long $(ARGS)

soak: install build ## An hour at ten times the usual load, and nothing may grow (ARGS="-duration 10m")
	@go run fairlead.dev/e2e/cmd/soak $(ARGS)

fleet: install build ## The hub under thousands of simulated agents (CLUSTERS=10000 SERVICES=30 DURATION=4m)
	@go run fairlead.dev/e2e/cmd/fleet -clusters $(CLUSTERS) -services $(SERVICES) -duration $(DURATION) $(ARGS)

attack: install build ## Send the corpus of attacks to a running stack (ARGS="-run NAME" some of it, ARGS=-short the quick ones)
	@KUBELOCAL=$$(tools/kubelocal/build.sh) go run fairlead.dev/e2e/cmd/attack $(ARGS)

bench: install build ## Run a benchmark: make bench BENCH=name
	@KUBELOCAL=$$(tools/kubelocal/build.sh) go run fairlead.dev/e2e/cmd/bench $(BENCH)

figures: ## How readable the tree is: names, comments, sizes (ARGS="-list sentences" prints the places)
	@GOWORK=off go -C tools run ./figures -root .. $(ARGS)

screenshots: install build ## Take pictures of the pages over a seeded console, and of clusters, journeys and recordings over the real product (bin/screenshots, and journeys/ there; those of the documentation also in docs/pictures)
	@mkdir -p docs/pictures
	@go run fairlead.dev/e2e/cmd/seeded -screenshots bin/screenshots -pictures docs/pictures
	@SHOTS=$(CURDIR)/bin/screenshots/journeys KUBELOCAL=$$(tools/kubelocal/build.sh) go test -count=1 -vet=off -timeout 20m -run '^TestPerson' fairlead.dev/e2e

gen: ## Generate code from proto/, and the reference of YAML and commands
	@tools/gen.sh

manifests: ## Render the charts of deploy/charts into deploy/kustomize, with the alerts
	@cd tools/manifests && GOWORK=off go run .

fmt: ## Format Go and proto
	@tools/buf.sh format -w proto
	@lint=$$(tools/lint/build.sh); for m in $(filter-out gen,$(MODULES)); do (cd $$m && "$$lint" fmt); done

lint: ## Lint Go, proto and the pages, and look for breaking changes of the contracts
	@tools/buf.sh lint
	@tools/buf.sh format --diff --exit-code proto
	@tools/buf.sh breaking-main
	@tools/web.sh --test
	@lint=$$(tools/lint/build.sh); for m in $(filter-out gen,$(MODULES)); do echo "lint $$m" >&2; (cd $$m && "$$lint" run); done

tidy: ## Tidy every module, at the versions that all of them together build with
	@go work sync
	@for m in $(MODULES); do (cd $$m && GOWORK=off go mod tidy); done

vuln: ## Look for known vulnerabilities (govulncheck); without its database it says so, and fails in CI
	@tools/vuln/check.sh $(filter-out gen web,$(MODULES))

check: gen fmt lint vuln race ## Everything that must hold before a change lands
	@git diff --exit-code --stat || { echo "make check changed files: commit them" >&2; exit 1; }
	@test -z "$$(git status --porcelain)" || { git status --short; echo "the tree is not clean: commit or ignore these files" >&2; exit 1; }

clean: ## Remove what was built here (the caches outside stay)
	@rm -rf bin .cache tools/node_modules web/node_modules web/dist/assets
