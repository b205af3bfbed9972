# make build   bin/sluice
# make demo    serve a tree, mount it with the real Linux client, dd through it
# make run     serve a directory (DIR=…, default this one) to this machine
# make test    everything, installing what it needs (Debian, root)
# make bench   micro-benchmarks
# make lint    formatting, vet, staticcheck
GO ?= go
DIR ?= $(CURDIR)
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2

.PHONY: build demo run test bench lint clean

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
	$(GO) test -timeout 20m ./...

bench:
	$(GO) test -run '^$$' -bench . -benchmem ./...

lint:
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo "run gofmt -w on these"; exit 1; }
	$(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...

clean:
	rm -rf bin
