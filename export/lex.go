package export

import "strings"

// lexer cuts a source into tokens by the rules of nfs-utils' xio.c. They are
// unusual, and kept as they are because files depend on them:
//
//   - Backslash, newline and the blanks after it are one blank, even in a
//     token or in quotes, but not in a comment.
//   - A quote toggles quoting anywhere in a token and is dropped.
//   - \ooo (octal, under 256) is decoded wherever it ends up in the token,
//     quoted or not, also if its backslash was itself decoded. Any other
//     backslash is itself.
//   - '#' starts a comment only where a token would start.
//   - A NUL outside quotes is a blank.
type lexer struct {
	src  *source
	off  int // next byte
	line int // its line, from 1
	bol  int // offset where that line starts
}

func newLexer(src *source) *lexer { return &lexer{src: src, line: 1} }

// token is a run of bytes with the place of each. Its slices are reused by the
// next call.
type token struct {
	text  []byte
	at    []mark
	start mark
	open  mark // the last quote, if unclosed
	state tokenState
}

type tokenState uint8

const (
	tokenOK       tokenState = iota
	tokenEmpty               // no byte before the end of the token
	tokenLong                // does not fit
	tokenUnclosed            // the file ended in quotes
	tokenNUL                 // holds a NUL byte
)

// span is the stretch of t from byte i up to j.
func (l *lexer) span(t *token, i, j int) span {
	if len(t.at) == 0 {
		return span{src: l.src, mark: t.start, width: 1}
	}
	m := t.at[min(i, len(t.at)-1)]
	end := t.at[max(min(j, len(t.at)), 1)-1]
	return span{src: l.src, mark: m, width: max(end.off-m.off+1, 1)}
}

func (l *lexer) here() mark { return mark{l.off, l.line, l.off - l.bol + 1} }

// peek returns the next character and how many bytes it takes; n is 0 at the
// end. A continued line is one blank.
func (l *lexer) peek() (c byte, n int) {
	rest := l.src.data[l.off:]
	switch {
	case len(rest) == 0:
		return 0, 0
	case len(rest) > 1 && rest[0] == '\\' && rest[1] == '\n':
		n = 2
		for n < len(rest) && (rest[n] == ' ' || rest[n] == '\t') {
			n++
		}
		return ' ', n
	}
	return rest[0], 1
}

// advance passes n bytes, as peek counted them: a newline is the first of one
// or the second of a continuation.
func (l *lexer) advance(n int) {
	for i := range min(n, 2) {
		if l.src.data[l.off+i] == '\n' {
			l.line++
			l.bol = l.off + i + 1
		}
	}
	l.off += n
}

// skip passes comments and what is in set, and returns the next character.
func (l *lexer) skip(set string) (c byte, ok bool) {
	for {
		c, n := l.peek()
		if n == 0 {
			return 0, false
		}
		if c == '#' {
			l.skipComment()
			continue
		}
		if c != 0 && strings.IndexByte(set, c) < 0 {
			return c, true
		}
		l.advance(n)
	}
}

// skipComment passes everything up to the newline; a backslash does not
// continue a comment.
func (l *lexer) skipComment() {
	for l.off < len(l.src.data) && l.src.data[l.off] != '\n' {
		l.off++
	}
}

// atLineEnd reports whether only a carriage return, if anything, is left of
// the line, and passes it.
func (l *lexer) atLineEnd() bool {
	rest := l.src.data[l.off:]
	switch {
	case len(rest) == 0 || rest[0] == '\n':
		return true
	case rest[0] == '\r' && (len(rest) == 1 || rest[1] == '\n'):
		l.off++
		return true
	}
	return false
}

// onlySpaceLeft reports whether nothing but white space follows in the file.
func (l *lexer) onlySpaceLeft() bool {
	for _, c := range l.src.data[l.off:] {
		if !isSpace(c) && c != 0 {
			return false
		}
	}
	return true
}

// next reads a token of fewer than size bytes into t.
func (l *lexer) next(t *token, size int) {
	*t = token{text: t.text[:0], at: t.at[:0], start: l.here()}
	quoted, nul := false, false
	for len(t.text) < size {
		c, n := l.peek()
		if n == 0 {
			break
		}
		if !quoted && (c == 0 || isSpace(c)) {
			if c != '\n' { // the newline also ends the line
				l.advance(n)
			}
			break
		}
		m := l.here()
		l.advance(n)
		if c == '"' {
			quoted = !quoted
			t.open = m
			continue
		}
		t.text = append(t.text, c)
		t.at = append(t.at, m)
		t.decodeOctal()
		nul = nul || t.text[len(t.text)-1] == 0
	}
	_, n := l.peek()
	switch {
	case len(t.text) >= size:
		t.state = tokenLong
	case quoted && n == 0:
		t.state = tokenUnclosed
	case nul:
		t.state = tokenNUL
	case len(t.text) == 0:
		t.state = tokenEmpty
	}
}

// decodeOctal replaces \ooo at the end of the token by its byte.
func (t *token) decodeOctal() {
	i := len(t.text) - 4
	if i < 0 || t.text[i] != '\\' {
		return
	}
	v := 0
	for _, c := range t.text[i+1:] {
		if c < '0' || c > '7' {
			return
		}
		v = v<<3 | int(c-'0')
	}
	if v < 256 {
		t.text = append(t.text[:i], byte(v))
		t.at = t.at[:i+1]
	}
}

// isSpace is isspace(3) in the C locale.
func isSpace(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' }
