package export

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// FuzzParse: no input makes the parser fail otherwise than by a message, every
// message points into the input, and what was parsed is parsed again from the
// print of the table.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/cases/*.exports")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte("0\r\r\r")) // a caret behind the end of the line
	for seed := range uint64(20) {
		f.Add([]byte(randomExports(seed)))
	}
	o := LoadOptions{Root: tree(f), Resolver: caseHosts(f)}
	f.Fuzz(func(t *testing.T, src []byte) {
		table, entries, diags := parseTable(context.Background(), "exports", src, o)
		for _, d := range diags {
			if d.Caret > len(d.Line) || d.Message == "" || d.Pos.Line > bytes.Count(src, []byte("\n"))+1 {
				t.Errorf("bad diagnostic %+v", d)
			}
		}
		if err := diags.Format(&bytes.Buffer{}); err != nil {
			t.Error(err)
		}
		n := 0
		for _, x := range table.Exports() {
			n += len(x.Entries)
		}
		if n != len(entries) {
			t.Errorf("%d entries in the table, %d kept", n, len(entries))
		}
		lines := table.EtabLines()
		if slices.ContainsFunc(entries, unreadable) {
			return
		}
		again, _, diags := parseTable(context.Background(), "etab", []byte(strings.Join(lines, "\n")+"\n"), o)
		if diags.HasErrors() || !slices.Equal(meanings(again), meanings(table)) {
			t.Errorf("etab\n%s\nis read as\n%s\n%v", strings.Join(lines, "\n"), strings.Join(again.EtabLines(), "\n"), diags)
		}
	})
}

// meanings are the entries of a table without what nfs-utils' form leaves out:
// how flavours were grouped, and whether one of them may use any port.
func meanings(table *Table) (list []string) {
	for _, x := range table.Exports() {
		for _, e := range x.Entries {
			o := e.Options
			o.ReadOnly, o.RootSquash, o.AllSquash = false, false, false // o.Sec has them
			o.set, o.Sec = optionSet{}, slices.Clone(o.Sec)
			for i := range o.Sec {
				o.Sec[i].Secure = false
			}
			list = append(list, fmt.Sprintf("%q %q %+v", x.Path, e.Client.Name, o))
		}
	}
	return list
}

// unreadable reports whether nfs-utils' form of the table cannot be read back:
// it has lists of ids that its reader does not know, a number before a UUID that
// overwrites it, client names that are not
// escaped (nobody's name reads as no name given, which is "*"), and no bound on the length that escapes give to a path or an option.
func unreadable(e *Entry) bool {
	line := e.EtabLine()
	path, client, _ := strings.Cut(line, "\t")
	s := &e.Options.set
	return len(s.squashUIDs) > 1 || s.uuid != "" && s.flags&NFSEXP_FSID != 0 || len(s.squashGIDs) > 1 ||
		e.Client.Name == "" || strings.ContainsAny(e.Client.Name, `\#`) || strings.HasPrefix(e.Client.Name, "-") ||
		len(client) >= maxHostToken || len(e.Export.Path) >= 1000 || strings.HasPrefix(path, "-") ||
		bytes.ContainsAny([]byte(s.uuid+s.mountpoint.Path+s.locations.Data), `\)`)
}
