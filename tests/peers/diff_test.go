package peers

import (
	"errors"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
)

// diffCase is one question that both servers are asked. The answer is a text
// that is the same for servers that behave the same.
type diffCase struct {
	name string
	ask  func(s *side) string
}

// TestAgainstGanesha asks NFS-Ganesha and the server the same questions about
// one tree. Answers may differ only as the table explained says, and every
// row of it must still be true of some case.
func TestAgainstGanesha(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	tree := newDiffTree(t)
	startGanesha(t, ns, tree.dir)
	startServer(t, ns, exportLine(tree.dir))
	ours := newSide(t, ns, tree, port, port)
	theirs := newSide(t, ns, tree, ganeshaPort, ganeshaMountPort)

	cases := diffCases()
	seen := map[string]bool{}
	used := map[int]bool{} // rows of explained
	for _, c := range cases {
		if seen[c.name] {
			t.Errorf("two cases are called %q", c.name)
		}
		seen[c.name] = true
		o, g := c.ask(ours), c.ask(theirs)
		if strings.Contains(o, "MALFORMED") || strings.Contains(o, "WRONG") {
			t.Errorf("%s: %s", c.name, o)
		}
		if o == g {
			continue
		}
		row := explain(c.name, o, g)
		if row < 0 {
			t.Errorf("%s: not explained:\n\tours   %s\n\ttheirs %s", c.name, o, g)
		}
		used[row] = true
	}
	for i, e := range explained {
		if !used[i] {
			t.Errorf("no case differs like this any more: %+v", e)
		}
	}
	t.Logf("%d cases, %d kinds of difference, all explained: %v", len(cases), len(explained), !t.Failed())
}

// ask makes an NFS call and renders the reply.
func (s *side) ask(proc uint32, c cred, args []byte) string {
	p := procedures[proc]
	return s.render(s.nfs, progNFS, 3, proc, c, args, p.ok, p.fail)
}

func (s *side) render(addr string, prog, vers, proc uint32, c cred, args []byte, ok, fail func(*renderer)) string {
	r, err := s.call(addr, prog, vers, proc, c, args)
	switch {
	case err != nil:
		return noReply(err)
	case r.denied || r.accept != 0:
		return renderRPC(r)
	}
	return s.results(r.body, ok, fail)
}

func noReply(err error) string {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "silence"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "connection closed"
	}
	return err.Error()
}

// procedure is how an NFS procedure's results look, with status OK and
// without.
type procedure struct {
	name     string
	ok, fail func(*renderer)
}

// okUnexpected is for procedures that never succeed here.
func okUnexpected(r *renderer) {
	r.add("succeeded on a read-only export")
	r.b = nil
}

var procedures = map[uint32]procedure{
	1:  {"GETATTR", func(r *renderer) { r.attr("obj") }, nothing},
	2:  {"SETATTR", okUnexpected, wcc("obj")},
	3:  {"LOOKUP", okLookup, postOp("dir")},
	4:  {"ACCESS", okAccess, postOp("obj")},
	5:  {"READLINK", okReadlink, postOp("obj")},
	6:  {"READ", okRead("", 0), postOp("obj")},
	7:  {"WRITE", okUnexpected, wcc("obj")},
	8:  {"CREATE", okUnexpected, wcc("dir")},
	9:  {"MKDIR", okUnexpected, wcc("dir")},
	10: {"SYMLINK", okUnexpected, wcc("dir")},
	11: {"MKNOD", okUnexpected, wcc("dir")},
	12: {"REMOVE", okUnexpected, wcc("dir")},
	13: {"RMDIR", okUnexpected, wcc("dir")},
	14: {"RENAME", okUnexpected, wcc("from", "to")},
	15: {"LINK", okUnexpected, func(r *renderer) { r.postOp("obj"); r.wcc("dir") }},
	16: {"READDIR", okReaddir(false), postOp("dir")},
	17: {"READDIRPLUS", okReaddir(true), postOp("dir")},
	18: {"FSSTAT", okFsstat, postOp("obj")},
	19: {"FSINFO", okFsinfo, postOp("obj")},
	20: {"PATHCONF", okPathconf, postOp("obj")},
	21: {"COMMIT", okCommit, wcc("obj")},
}

// okCommit is separate as COMMIT changes nothing and so may succeed.
func okCommit(r *renderer) {
	r.wcc("obj")
	r.take(8) // verifier
}
