package numa

import (
	"fmt"
	"strings"
)

// Request is what the operator asks for. The zero value is off.
type Request struct {
	kind kind
	node int
	dev  string
}

type kind int

const (
	off kind = iota
	auto
	onNode
	onNetdev
)

// ParseRequest reads auto, off, node=N or netdev=IF.
func ParseRequest(s string) (Request, error) {
	key, value, _ := strings.Cut(s, "=")
	switch {
	case s == "off":
		return Request{}, nil
	case s == "auto":
		return Request{kind: auto}, nil
	case key == "node":
		if n, err := parseNumber(value); err == nil {
			return Request{kind: onNode, node: n}, nil
		}
	case key == "netdev" && value != "":
		return Request{kind: onNetdev, dev: value}, nil
	}
	return Request{}, fmt.Errorf("%q: must be auto, off, node=N or netdev=IF", s)
}

// String is what ParseRequest reads.
func (r Request) String() string {
	switch r.kind {
	case auto:
		return "auto"
	case onNode:
		return fmt.Sprintf("node=%d", r.node)
	case onNetdev:
		return "netdev=" + r.dev
	}
	return "off"
}
