package export

// wildmat reports whether pattern matches the whole of text: '*' any run, dots
// included, '?' one character, [a-z] and [^a-z] a class, '\' quotes. Letters
// match in either case, ranges by their own case only (nfs-utils' wildmat.c).
//
// On a mismatch only the last '*' takes one more character; the time is at
// most len(pattern)·len(text).
func wildmat(text, pattern string) bool {
	t, p := 0, 0
	star, mark := -1, 0
	for t < len(text) {
		if p < len(pattern) && pattern[p] == '*' {
			star, mark = p, t
			p++
			continue
		}
		if n, ok := matchOne(text[t], pattern[p:]); ok {
			t++
			p += n
			continue
		}
		if star < 0 {
			return false
		}
		mark++
		t, p = mark, star+1
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// matchOne compares one character with the start of pattern and returns how
// much of the pattern that is.
func matchOne(c byte, pattern string) (n int, ok bool) {
	if pattern == "" {
		return 0, false
	}
	switch pattern[0] {
	case '?':
		return 1, true
	case '[':
		return matchClass(c, pattern)
	case '\\':
		if len(pattern) == 1 {
			return 1, false
		}
		return 2, upper(c) == upper(pattern[1])
	}
	return 1, upper(c) == upper(pattern[0])
}

// matchClass compares with [...]. A ']' or '-' right after the bracket is
// itself; a class that does not end ends with the pattern.
func matchClass(c byte, pattern string) (n int, ok bool) {
	i := 1
	reverse := i < len(pattern) && pattern[i] == '^'
	if reverse {
		i++
	}
	matched := false
	last := byte('[')
	if reverse {
		last = '^'
	}
	if i < len(pattern) && (pattern[i] == ']' || pattern[i] == '-') {
		last = pattern[i]
		matched = upper(c) == upper(last)
		i++
	}
	for i < len(pattern) && pattern[i] != ']' {
		if pattern[i] == '-' && i+1 < len(pattern) && pattern[i+1] != ']' {
			i++
			matched = matched || last <= c && c <= pattern[i]
		} else {
			matched = matched || upper(c) == upper(pattern[i])
		}
		last = pattern[i]
		i++
	}
	return min(i+1, len(pattern)), matched != reverse
}

func upper(c byte) byte {
	if 'a' <= c && c <= 'z' {
		return c - 'a' + 'A'
	}
	return c
}
