package export

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// ShowTable prints the table for people: a line for each entry, with what is
// not the default.
func (t *Table) ShowTable(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(tw, "PATH\tCLIENT\tKIND\tFLAVOURS\tOPTIONS\tFROM")
	for _, x := range t.exports {
		for _, e := range x.Entries {
			fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s:%d\n", printable(x.Path), printable(e.Client.String()), e.Client.Kind,
				e.flavorNames(), printable(strings.Join(e.Options.set.words(), ",")), e.Pos.File, e.Pos.Line)
		}
	}
	return tw.Flush()
}

func (e *Entry) flavorNames() string {
	var names []string
	for _, f := range e.Options.Sec {
		names = append(names, f.Name)
	}
	return strings.Join(names, ":")
}

// words are the options that differ from the defaults, and ro or rw.
func (s *optionSet) words() []string {
	d := defaultOptionSet()
	usual := map[string]bool{}
	for w := range strings.SplitSeq(d.list(), ",") {
		usual[w] = w != "ro"
	}
	var list []string
	for w := range strings.SplitSeq(s.list(), ",") {
		if !usual[w] {
			list = append(list, w)
		}
	}
	return list
}

// entryJSON is an entry as ShowJSON prints it.
type entryJSON struct {
	Path    string       `json:"path"`
	Client  string       `json:"client"`
	Kind    string       `json:"kind"`
	Written string       `json:"written"`
	Addrs   []string     `json:"addresses,omitempty"`
	Options []string     `json:"options"`
	Sec     []flavorJSON `json:"sec"`
	AnonUID uint32       `json:"anonuid"`
	AnonGID uint32       `json:"anongid"`
	File    string       `json:"file"`
	Line    int          `json:"line"`
	Column  int          `json:"column"`
}

type flavorJSON struct {
	Name       string `json:"name"`
	ReadOnly   bool   `json:"read_only"`
	Secure     bool   `json:"secure"`
	RootSquash bool   `json:"root_squash"`
	AllSquash  bool   `json:"all_squash"`
}

// ShowJSON prints the table as a JSON array of entries, with every option.
func (t *Table) ShowJSON(w io.Writer) error {
	list := []entryJSON{}
	for _, x := range t.exports {
		for _, e := range x.Entries {
			list = append(list, e.json())
		}
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(list)
}

func (e *Entry) json() entryJSON {
	j := entryJSON{
		Path: e.Export.Path, Client: e.Client.String(), Kind: e.Client.Kind.String(), Written: e.Client.Written,
		Options: strings.Split(e.Options.set.list(), ","),
		AnonUID: e.Options.AnonUID, AnonGID: e.Options.AnonGID,
		File: e.Pos.File, Line: e.Pos.Line, Column: e.Pos.Col,
	}
	for _, a := range e.Client.Addrs {
		j.Addrs = append(j.Addrs, a.String())
	}
	for _, f := range e.Options.Sec {
		j.Sec = append(j.Sec, flavorJSON{f.Name, f.ReadOnly, f.Secure, f.RootSquash, f.AllSquash})
	}
	return j
}
