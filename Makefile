# make build   bin/sluice
# make demo    serve a tree, mount it with the real Linux client, dd through it
# make run     serve a directory (DIR=…, default this one) to this machine
# make test    everything, installing what it needs (Debian, root)
# make test-paths  the protocol's tests on each send path
# make test-numa   where threads and memory are, in an emulated machine of two nodes
# make dd-test the dd test of 2008: the real client, cold and warm, schedulers, threads
# make bench   measure Sluice, NFS-Ganesha and others; a report in bench-report
#              (KNFSD=1: the kernel's own server too, emulated; Debian, root)
# make microbench   Go's benchmarks of single functions
# make chaos   faults, hostile peers, attackers, with a report (CHAOS=2h for longer)
# make lint    formatting, vet, staticcheck
GO ?= go
DIR ?= $(CURDIR)
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2

.PHONY: build demo run test test-paths test-numa dd-test bench microbench chaos lint clean

build:
	$(GO) build -trimpath -o bin/sluice ./nfsd/cmd/sluice

demo: build
	sh tests/setup.sh demo
	$(GO) run ./tests/demo --server bin/sluice

run: build
	bin/sluice serve $(DIR)

test: build
	sh tests/setup.sh test
	$(GO) vet ./...
	$(GO) test -count=1 -timeout 20m ./...

test-paths:
	for path in splice uring copy; do \
		echo "--send-path $$path"; \
		SLUICE_SEND_PATH=$$path $(GO) test -count=1 -timeout 5m ./tests/protocol || exit 1; \
	done

test-numa:
	sh tests/setup.sh numa
	$(GO) test -v -count=1 -timeout 12m ./tests/numa

dd-test: build
	sh tests/setup.sh dd-test
	$(GO) run ./tests/dd --server bin/sluice

bench: build
	sh tests/setup.sh bench $(if $(KNFSD),knfsd)
	$(if $(KNFSD),sh tests/bench/knfsd.sh fetch bin/bench/knfsd)
	$(GO) build -trimpath -o bin/bench/ ./tests/bench/...
	bin/bench/bench -server bin/sluice $(if $(KNFSD),-knfsd bin/bench/knfsd) $(BENCHFLAGS)

microbench:
	$(GO) test -run '^$$' -bench . -benchmem ./...

chaos:
	sh tests/setup.sh test
	$(GO) run ./tests/chaos

lint:
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo "run gofmt -w on these"; exit 1; }
	$(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...

clean:
	rm -rf bin
