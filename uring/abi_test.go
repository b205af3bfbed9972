package uring

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// layouts has every struct's size and the offset of each field, counted out by
// hand from include/uapi/linux/io_uring.h. Fields are in the header's order
// and under its names; of a union, the first.
var layouts = []struct {
	name    string
	v       any
	size    uintptr
	fields  string
	offsets []uintptr
}{
	{"io_uring_sqe", io_uring_sqe{}, 64,
		"opcode flags ioprio fd off addr len rw_flags user_data buf_index personality splice_fd_in addr3 __pad2",
		[]uintptr{0, 1, 2, 4, 8, 16, 24, 28, 32, 40, 42, 44, 48, 56}},
	{"io_uring_cqe", io_uring_cqe{}, 16, "user_data res flags", []uintptr{0, 8, 12}},
	{"io_sqring_offsets", io_sqring_offsets{}, 40,
		"head tail ring_mask ring_entries flags dropped array resv1 user_addr",
		[]uintptr{0, 4, 8, 12, 16, 20, 24, 28, 32}},
	{"io_cqring_offsets", io_cqring_offsets{}, 40,
		"head tail ring_mask ring_entries overflow cqes flags resv1 user_addr",
		[]uintptr{0, 4, 8, 12, 16, 20, 24, 28, 32}},
	{"io_uring_params", io_uring_params{}, 120,
		"sq_entries cq_entries flags sq_thread_cpu sq_thread_idle features wq_fd resv sq_off cq_off",
		[]uintptr{0, 4, 8, 12, 16, 20, 24, 28, 40, 80}},
	{"io_uring_getevents_arg", io_uring_getevents_arg{}, 24,
		"sigmask sigmask_sz min_wait_usec ts", []uintptr{0, 8, 12, 16}},
	{"io_uring_rsrc_register", io_uring_rsrc_register{}, 32,
		"nr flags resv2 data tags", []uintptr{0, 4, 8, 16, 24}},
	{"io_uring_rsrc_update", io_uring_rsrc_update{}, 16, "offset resv data", []uintptr{0, 4, 8}},
	{"io_uring_rsrc_update2", io_uring_rsrc_update2{}, 32,
		"offset resv data tags nr resv2", []uintptr{0, 4, 8, 16, 24, 28}},
	{"io_uring_probe_op", io_uring_probe_op{}, 8, "op resv flags resv2", []uintptr{0, 1, 2, 4}},
	// The header's ends in a flexible array; its size is that of the rest.
	{"io_uring_probe", io_uring_probe{}, 16 + probeOpsMax*8,
		"last_op ops_len resv resv2 ops", []uintptr{0, 1, 2, 4, 16}},
	{"io_uring_buf", io_uring_buf{}, 16, "addr len bid resv", []uintptr{0, 8, 12, 14}},
	{"io_uring_buf_reg", io_uring_buf_reg{}, 40,
		"ring_addr ring_entries bgid flags resv", []uintptr{0, 8, 12, 14, 16}},
	{"io_uring_recvmsg_out", io_uring_recvmsg_out{}, 16,
		"namelen controllen payloadlen flags", []uintptr{0, 4, 8, 12}},
}

func TestLayout(t *testing.T) {
	for _, l := range layouts {
		typ := reflect.TypeOf(l.v)
		if typ.Size() != l.size {
			t.Errorf("%s: size %d, want %d", l.name, typ.Size(), l.size)
		}
		names := strings.Fields(l.fields)
		if typ.NumField() != len(names) || len(names) != len(l.offsets) {
			t.Errorf("%s: %d fields, want %d", l.name, typ.NumField(), len(names))
			continue
		}
		for i, name := range names {
			if got := typ.Field(i).Offset; got != l.offsets[i] {
				t.Errorf("%s.%s: offset %d, want %d", l.name, name, got, l.offsets[i])
			}
		}
	}
}

// TestAgainstHeader compares layouts and constants with the C header that is
// installed, where there is a compiler. Names the header is too old for are
// left out.
func TestAgainstHeader(t *testing.T) {
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip(err)
	}
	if _, err := os.Stat("/usr/include/linux/io_uring.h"); err != nil {
		t.Skip(err)
	}
	lines := append(layoutLines(), constantLines(t)...)
	checked, unknown := 0, map[string]bool{}
	for range 4 { // the compiler names the unknown ones, then they are left out
		var prog bytes.Buffer
		prog.WriteString("#define _GNU_SOURCE\n#include <stddef.h>\n#include <stdio.h>\n#include <fcntl.h>\n#include <linux/io_uring.h>\nint main(void) {\n")
		checked = 0
		for _, l := range lines {
			if !unknown[l.name] {
				fmt.Fprintf(&prog, "if ((unsigned long long)(%s) != %sULL) printf(\"%%s is %%llu, not %s\\n\", \"%s\", (unsigned long long)(%s));\n", l.expr, l.want, l.want, l.name, l.expr)
				checked++
			}
		}
		prog.WriteString("return 0; }\n")
		out, compiled := compileAndRun(t, gcc, prog.Bytes())
		if compiled {
			if len(out) != 0 {
				t.Errorf("the header differs:\n%s", out)
			}
			break
		}
		before := len(unknown)
		for _, m := range unknownName.FindAllStringSubmatch(out, -1) {
			if m[1] == "" {
				m[1] = m[2] + "." + m[3]
			}
			unknown[m[1]] = true
		}
		if len(unknown) == before {
			t.Fatalf("the program does not compile:\n%s", out)
		}
	}
	t.Logf("%d values checked, %d names unknown to the installed header", checked, len(unknown))
	if checked < 200 {
		t.Errorf("only %d values checked", checked)
	}
}

var unknownName = regexp.MustCompile(`'(\w+)' undeclared|'struct (\w+)' has no member named '(\w+)'`)

type headerLine struct{ name, expr, want string }

func layoutLines() []headerLine {
	var lines []headerLine
	for _, l := range layouts {
		if l.name != "io_uring_probe" {
			lines = append(lines, headerLine{l.name, "sizeof(struct " + l.name + ")", fmt.Sprint(l.size)})
		}
		for i, field := range strings.Fields(l.fields) {
			if l.name == "io_uring_buf_reg" && field == "resv" {
				continue // younger headers have named a part of it
			}
			lines = append(lines, headerLine{l.name + "." + field, fmt.Sprintf("offsetof(struct %s, %s)", l.name, field), fmt.Sprint(l.offsets[i])})
		}
	}
	return lines
}

// constantLines evaluates every constant of the abi files that has a kernel
// name.
func constantLines(t *testing.T) []headerLine {
	t.Helper()
	fset := token.NewFileSet()
	var files []*ast.File
	names, err := filepath.Glob("abi*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(names, "limits.go") {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	// Imports are not resolved: the constants need none.
	conf := types.Config{Error: func(error) {}, IgnoreFuncBodies: true}
	pkg, _ := conf.Check("uring", fset, files, nil)
	var lines []headerLine
	for _, name := range pkg.Scope().Names() {
		c, ok := pkg.Scope().Lookup(name).(*types.Const)
		if !ok || !kernelName.MatchString(name) {
			continue
		}
		want := c.Val()
		if constant.Sign(want) < 0 {
			continue // IORING_REGISTER_FILES_SKIP
		}
		lines = append(lines, headerLine{name, name, want.ExactString()})
	}
	return lines
}

var kernelName = regexp.MustCompile(`^(IO_|IOU_|IORING_|IOSQE_|SPLICE_F_)`)

func compileAndRun(t *testing.T, gcc string, prog []byte) (out string, compiled bool) {
	t.Helper()
	dir := t.TempDir()
	src, bin := filepath.Join(dir, "a.c"), filepath.Join(dir, "a")
	if err := os.WriteFile(src, prog, 0o600); err != nil {
		t.Fatal(err)
	}
	cc := exec.Command(gcc, "-w", "-o", bin, src)
	cc.Env = append(os.Environ(), "LC_ALL=C")
	if msg, err := cc.CombinedOutput(); err != nil {
		return string(msg), false
	}
	b, err := exec.Command(bin).CombinedOutput()
	if err != nil {
		t.Fatal(err)
	}
	return string(b), true
}

func TestOpcodeNames(t *testing.T) {
	for op, name := range opcodeNames {
		if !strings.HasPrefix(name, "IORING_OP_") || Opcode(op).String() != name {
			t.Errorf("opcode %d: %q", op, name)
		}
	}
	if got := Opcode(200).String(); got != "Opcode(200)" {
		t.Error(got)
	}
	if got := RegisterOp(99).String(); got != "RegisterOp(99)" {
		t.Error(got)
	}
}
