package export

import (
	"bytes"
	"slices"
)

// rawEntry is a path and client pair as a file has it, nothing looked up yet.
type rawEntry struct {
	path   string
	host   string
	set    optionSet
	pathAt span
	hostAt span
}

// fileParser reads one file:
//
//	file  = { path { "-" options | [host] [ "(" options ")" ] } newline }
type fileParser struct {
	lex     *lexer
	rep     *reporter
	tok     token
	entries []rawEntry

	// path and pathAt are those of the line being read, defaults its default
	// options so far.
	path        string
	pathAt      span
	defaults    optionSet
	hasDefaults bool
	// bareHost is the client before this one, if it had no options: what
	// follows it in parentheses was probably meant for it.
	bareHost string
}

// parseSource reads a file up to its end or its first error; room bounds the
// entries.
func parseSource(src *source, rep *reporter, room int) []rawEntry {
	p := &fileParser{lex: newLexer(src), rep: rep}
	if i := bytes.IndexByte(src.data, 0); i >= 0 {
		line := bytes.Count(src.data[:i], []byte("\n")) + 1
		col := i - bytes.LastIndexByte(src.data[:i], '\n')
		rep.at(span{src, mark{i, line, col}, 1}, Warning, "exports files are text; was this one cut short or copied wrongly?",
			"NUL byte, read as a blank outside quotes")
	}
	for p.line() {
		if len(p.entries) > room {
			rep.at(p.pathAt, Error, "", "more than %d entries; the rest of the file is not read", maxEntries)
			return p.entries[:room]
		}
	}
	return p.entries
}

// line reads a path and its clients. It returns false at the end of the file
// and at an error that abandons the rest.
func (p *fileParser) line() bool {
	if _, ok := p.lex.skip(" \t\n"); !ok {
		return false
	}
	if p.lex.onlySpaceLeft() {
		return false
	}
	p.lex.next(&p.tok, maxPathToken)
	if !p.usable("path", maxPathToken) {
		return false
	}
	p.path = string(p.tok.text)
	p.pathAt = p.lex.span(&p.tok, 0, len(p.tok.text))
	if bytes.IndexByte(p.tok.text, '\n') >= 0 {
		p.rep.at(p.pathAt, Warning, "is a closing quote missing?", "the path spans lines")
	}
	p.defaults, p.hasDefaults, p.bareHost = defaultOptionSet(), false, ""
	return p.clients()
}

// usable reports whether the token just read can be a path or a client.
func (p *fileParser) usable(what string, size int) bool {
	t, rest := &p.tok, "; the rest of the file is not read"
	whole := p.lex.span(t, 0, len(t.text))
	switch t.state {
	case tokenOK:
		return true
	case tokenLong:
		p.rep.at(p.lex.span(t, 0, 1), Error, "", "%s of %d bytes or more%s", what, size, rest)
	case tokenUnclosed:
		p.rep.at(span{p.lex.src, t.open, 1}, Error, "a quote spans lines until the next one",
			"this quote is never closed%s", rest)
	case tokenNUL:
		p.rep.at(whole, Error, "", "NUL byte in a %s%s", what, rest)
	case tokenEmpty:
		hint := `"" means nobody and nothing here: remove it`
		if t.open == (mark{}) {
			hint = "remove the control character, such as a carriage return, at this place"
		}
		p.rep.at(whole, Error, hint, "empty %s%s", what, rest)
	}
	return false
}

// host reads the next token of a line. more is false at the end of the line,
// ok at an error.
func (p *fileParser) host() (more, ok bool) {
	if _, any := p.lex.skip(" \t"); !any || p.lex.atLineEnd() {
		return false, true
	}
	p.lex.next(&p.tok, maxHostToken)
	return true, p.usable("client", maxHostToken)
}

// clients reads the rest of a line.
func (p *fileParser) clients() bool {
	for first := true; ; first = false {
		more, ok := p.host()
		if !ok {
			return false
		}
		if !more && !first {
			return true
		}
		defaults := more && p.tok.text[0] == '-'
		if defaults {
			if !p.parseDefaults() {
				return false
			}
			if more, ok = p.host(); !ok {
				return false
			}
		}
		if !more {
			p.everyone(first, defaults)
			return true
		}
		if !p.client() {
			return false
		}
		if len(p.entries) > maxEntries {
			return true // the caller says so
		}
	}
}

// parseDefaults reads -options, which add to those already given on the line.
func (p *fileParser) parseDefaults() bool {
	o := optionParser{rep: p.rep, lex: p.lex, tok: &p.tok, base: 1, set: &p.defaults}
	p.hasDefaults, p.bareHost = true, ""
	return o.parse(p.tok.text[1:])
}

// everyone makes the entry of a line that names no client, or ends in default
// options.
func (p *fileParser) everyone(first, defaults bool) {
	switch {
	case first:
		p.rep.at(p.pathAt, Warning, "name the clients, or write * if everyone is meant: "+p.path+" *(ro)",
			"no client is named, so that everyone gets %s", p.path)
	case defaults:
		p.rep.at(p.lex.span(&p.tok, 0, len(p.tok.text)), Warning, "options that start with - come before the clients they are for",
			"these default options end the line, so that everyone gets %s with them", p.path)
	}
	p.add("", p.defaults, p.pathAt)
}

func (p *fileParser) add(host string, set optionSet, at span) {
	p.entries = append(p.entries, rawEntry{path: p.path, host: host, set: set, pathAt: p.pathAt, hostAt: at})
}

// client reads host, host(options) or (options) from the token.
func (p *fileParser) client() bool {
	text := p.tok.text
	at := p.lex.span(&p.tok, 0, len(text))
	open := bytes.IndexByte(text, '(')
	if open < 0 {
		p.bareHost = string(text)
		p.add(p.bareHost, p.defaults, at)
		return true
	}
	list := text[open+1:]
	end := bytes.IndexByte(list, ')')
	if end != len(list)-1 || end < 0 {
		p.badList(open, end)
		return false
	}
	host := string(text[:open])
	if open == 0 {
		host = "*"
		p.noHost(at, string(text))
	}
	set := p.defaults
	o := optionParser{rep: p.rep, lex: p.lex, tok: &p.tok, base: open + 1, set: &set}
	if !o.parse(list[:end]) {
		return false
	}
	p.boundDefaults(at, set)
	p.bareHost = ""
	p.add(host, set, at)
	return true
}

// badList says what is wrong with parentheses: end is where ")" is after the
// opening one, or negative.
func (p *fileParser) badList(open, end int) {
	if end < 0 {
		p.rep.at(p.lex.span(&p.tok, open, len(p.tok.text)), Error, "no blank may stand in the list: (rw,sync)",
			"the option list has no closing parenthesis; the rest of the file is not read")
		return
	}
	after := open + 1 + end + 1
	p.rep.at(p.lex.span(&p.tok, after, len(p.tok.text)), Error, "put a blank after the closing parenthesis",
		"%q follows the option list; the rest of the file is not read", p.tok.text[after:])
}

// noHost explains a list of options without a client before it.
func (p *fileParser) noHost(at span, list string) {
	if p.bareHost == "" {
		p.rep.at(at, Warning, "write *"+list+" if everyone is meant", "no client stands before %s, so that everyone gets it", list)
		return
	}
	p.rep.at(at, Warning, "without the blank it is one client: "+p.bareHost+list,
		"the blank before %s makes two clients: %s with the default options, and everyone (*) with %s", list, p.bareHost, list)
}

// boundDefaults warns of an option given for a client that changes nothing,
// because a sec= among the default options has bound its flavours already.
func (p *fileParser) boundDefaults(at span, set optionSet) {
	changed := (set.flags ^ p.defaults.flags) & secinfoFlags
	if changed == 0 || p.defaults.nsec == 0 {
		return
	}
	same := slices.Equal(set.sec[:p.defaults.nsec], p.defaults.sec[:p.defaults.nsec])
	if same && set.nsec == p.defaults.nsec {
		p.rep.at(at, Warning, "repeat the sec= in the client's own options, before the others",
			"the options of this client change nothing: the sec= among the default options has bound those before it to its flavours")
	}
}
