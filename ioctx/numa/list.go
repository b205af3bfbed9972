package numa

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// List is a set of CPU or node numbers, ascending.
type List []int

// maxNumber bounds the numbers in a list: far more than the CPUs of any kernel
// (CONFIG_NR_CPUS is at most 8192), and little memory.
const maxNumber = 1 << 16

// ParseList reads the kernel's list format, "0-3,8" (bitmap list format in
// Documentation/admin-guide/cpuset.rst, cpuset(7)). Empty is a list too.
func ParseList(s string) (List, error) {
	s = strings.TrimSpace(s)
	if s == "" {
		return nil, nil
	}
	var l List
	for part := range strings.SplitSeq(s, ",") {
		first, last, isRange := strings.Cut(part, "-")
		lo, err := parseNumber(first)
		hi := lo
		if err == nil && isRange {
			hi, err = parseNumber(last)
		}
		if err != nil || hi < lo {
			return nil, fmt.Errorf("%q is not a list of numbers such as 0-3,8", s)
		}
		for n := lo; n <= hi; n++ {
			l = append(l, n)
		}
	}
	slices.Sort(l)
	return slices.Compact(l), nil
}

func parseNumber(s string) (int, error) {
	n, err := strconv.ParseUint(s, 10, 31)
	if err == nil && n >= maxNumber {
		err = strconv.ErrRange
	}
	return int(n), err
}

// String is the kernel's list format.
func (l List) String() string {
	var b strings.Builder
	for i := 0; i < len(l); {
		end := i
		for end+1 < len(l) && l[end+1] == l[end]+1 {
			end++
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(l[i]))
		if end > i {
			b.WriteByte('-')
			b.WriteString(strconv.Itoa(l[end]))
		}
		i = end + 1
	}
	return b.String()
}

// MarshalText makes a list appear in JSON as the kernel writes it.
func (l List) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (l *List) UnmarshalText(b []byte) (err error) {
	*l, err = ParseList(string(b))
	return err
}

// Contains says whether n is in the list.
func (l List) Contains(n int) bool {
	_, found := slices.BinarySearch(l, n)
	return found
}

// And returns what is in both lists.
func (l List) And(m List) List {
	var both List
	for _, n := range l {
		if m.Contains(n) {
			both = append(both, n)
		}
	}
	return both
}

// with returns the list with other numbers in it too.
func (l List) with(m List) List {
	all := slices.Concat(l, m)
	slices.Sort(all)
	return slices.Compact(all)
}
