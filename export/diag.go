package export

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// Pos is a place in an exports file. Line and Col count from 1; Col counts
// bytes, as compilers do.
type Pos struct {
	File      string
	Line, Col int
}

func (p Pos) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Col)
}

// Severity orders diagnostics.
type Severity uint8

const (
	// Note tells what is worth knowing; nothing is wrong.
	Note Severity = iota
	// Warning: the table is as nfs-utils would have it, and probably not as
	// it was meant.
	Warning
	// Error: something in the file was refused.
	Error
)

func (s Severity) String() string { return [...]string{"note", "warning", "error"}[s] }

// Diagnostic is one message about an exports file.
type Diagnostic struct {
	Severity Severity
	Pos      Pos
	// Line is the source line, or a piece of a long one; Caret is the byte
	// offset in it that Pos points at, and Width how many bytes are meant.
	Line         string
	Caret, Width int
	Message      string
	// Hint says what was probably meant, or what to do. May be empty.
	Hint string

	// fails marks what makes exportfs exit with 1 although it goes on.
	fails bool
}

func (d Diagnostic) String() string {
	s := fmt.Sprintf("%s: %s: %s", d.Pos, d.Severity, d.Message)
	if d.Hint != "" {
		s += " (" + d.Hint + ")"
	}
	return s
}

// Diagnostics are the messages about one table, in file order.
type Diagnostics []Diagnostic

// HasErrors reports whether any part of the file was refused.
func (d Diagnostics) HasErrors() bool {
	return slices.ContainsFunc(d, func(x Diagnostic) bool { return x.Severity == Error })
}

// ExitStatus is what exportfs -ra would exit with: 1 after an error and after
// what it calls one but goes on from (a missing path, a duplicate), else 0.
func (d Diagnostics) ExitStatus() int {
	if slices.ContainsFunc(d, func(x Diagnostic) bool { return x.Severity == Error || x.fails }) {
		return 1
	}
	return 0
}

// Format prints each message with its line and a caret.
func (d Diagnostics) Format(w io.Writer) error {
	for _, x := range d {
		if err := x.format(w); err != nil {
			return err
		}
	}
	return nil
}

func (d Diagnostic) format(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s: %s\n", printable(d.Pos.String()), d.Severity, d.Message)
	if d.Line != "" {
		number := fmt.Sprintf("%5d | ", d.Pos.Line)
		b.WriteString(number + printable(d.Line) + "\n")
		b.WriteString(strings.Repeat(" ", len(number)-2) + "| ")
		b.WriteString(strings.Repeat(" ", utf8.RuneCountInString(printable(d.Line[:d.Caret]))))
		meant := d.Line[d.Caret:min(d.Caret+d.Width, len(d.Line))]
		b.WriteString("^" + strings.Repeat("~", max(utf8.RuneCountInString(printable(meant))-1, 0)) + "\n")
	}
	if d.Hint != "" {
		b.WriteString("        hint: " + d.Hint + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// printable makes one column of each byte or rune that a terminal would not
// show as one, or would act upon: control characters become '?', a tab one
// blank.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case r < ' ' || r == 0x7f || r == utf8.RuneError || (r >= 0x80 && r < 0xa0):
			return '?'
		}
		return r
	}, s)
}

// source is one exports file in memory.
type source struct {
	name string
	data []byte
}

// mark is the place of a byte in a source.
type mark struct{ off, line, col int }

// span is a stretch of a source that a message points at. A nil src is a file
// as a whole.
type span struct {
	src *source
	mark
	width int
}

func (s span) pos() Pos { return Pos{File: s.src.name, Line: s.line, Col: s.col} }

// excerpt returns the line around s, cut to maxExcerptBytes, and where s
// starts in it.
func (s span) excerpt() (line string, caret int) {
	data, start, end := s.src.data, s.off, s.off
	for start > 0 && data[start-1] != '\n' && s.off-start < maxExcerptBytes/2 {
		start--
	}
	for end < len(data) && data[end] != '\n' && end-start < maxExcerptBytes {
		end++
	}
	line = strings.TrimRight(string(data[start:end]), "\r")
	return line, min(s.off-start, len(line))
}

// reporter collects diagnostics, bounded.
type reporter struct {
	diags   Diagnostics
	dropped [3]int // by severity, once the bound is reached
	failed  bool   // something dropped made exportfs fail
}

func (r *reporter) add(d Diagnostic) {
	// Errors are never crowded out by notes: their bound is apart.
	if len(r.diags) >= maxDiagnostics && (d.Severity < Error || len(r.diags) >= 2*maxDiagnostics) {
		r.dropped[d.Severity]++
		r.failed = r.failed || d.fails
		return
	}
	r.diags = append(r.diags, d)
}

func (r *reporter) at(s span, sev Severity, hint, format string, args ...any) {
	r.report(s, sev, false, hint, format, args...)
}

// fails reports a warning that makes exportfs exit with 1.
func (r *reporter) fails(s span, hint, format string, args ...any) {
	r.report(s, Warning, true, hint, format, args...)
}

func (r *reporter) report(s span, sev Severity, fails bool, hint, format string, args ...any) {
	line, caret := s.excerpt()
	r.add(Diagnostic{
		Severity: sev, Pos: s.pos(), Line: line, Caret: caret, Width: s.width,
		Message: printable(fmt.Sprintf(format, args...)), Hint: printable(hint), fails: fails,
	})
}

// file reports on a file as a whole.
func (r *reporter) file(name string, sev Severity, fails bool, hint, format string, args ...any) {
	r.add(Diagnostic{Severity: sev, Pos: Pos{File: name}, Message: printable(fmt.Sprintf(format, args...)), Hint: hint, fails: fails})
}

// finish returns the messages in file order, the order of files as given.
func (r *reporter) finish(files []string) Diagnostics {
	rank := make(map[string]int, len(files))
	for i, f := range files {
		rank[f] = i
	}
	slices.SortStableFunc(r.diags, func(a, b Diagnostic) int {
		return 4*sign(rank[a.Pos.File]-rank[b.Pos.File]) + 2*sign(a.Pos.Line-b.Pos.Line) + sign(a.Pos.Col-b.Pos.Col)
	})
	if n := r.dropped[Note] + r.dropped[Warning] + r.dropped[Error]; n > 0 {
		worst := Note
		for s := Note; s <= Error; s++ {
			if r.dropped[s] > 0 {
				worst = s
			}
		}
		name := ""
		if len(files) > 0 {
			name = files[0]
		}
		r.diags = append(r.diags, Diagnostic{
			Severity: worst, Pos: Pos{File: name}, fails: r.failed,
			Message: fmt.Sprintf("%d more messages are not shown", n),
		})
	}
	return r.diags
}

func sign(n int) int {
	switch {
	case n < 0:
		return -1
	case n > 0:
		return 1
	}
	return 0
}
