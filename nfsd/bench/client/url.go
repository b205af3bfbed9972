package client

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// Target is what an nfs:// URL names.
type Target struct {
	Host string
	// Port and MountPort are where NFS and MOUNT are; 0 means not given.
	Port, MountPort uint16
	// Path is the object's path on the server, absolute, without empty components.
	Path string
}

const (
	maxPath = 1024 // MNTPATHLEN, RFC 1813 section 5.1.1
	maxName = 255  // of one component; what Linux has as NAME_MAX
)

// ParseURL reads nfs://HOST[:PORT]/PATH, with the arguments of libnfs that make
// sense here: nfsport (or port), mountport, and version, which must be 3.
func ParseURL(s string) (Target, error) {
	bad := func(format string, a ...any) (Target, error) {
		return Target{}, fmt.Errorf("%q: %s", s, fmt.Sprintf(format, a...))
	}
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "nfs" || u.Opaque != "" || u.User != nil || u.Fragment != "" {
		return bad("must be like nfs://HOST[:PORT]/EXPORT/FILE")
	}
	t := Target{Host: u.Hostname()}
	if t.Host == "" {
		return bad("names no host")
	}
	if strings.HasSuffix(u.Host, ":") {
		return bad("names no port after the colon")
	}
	if p := u.Port(); p != "" {
		if t.Port, err = parsePort(p); err != nil {
			return bad("%v", err)
		}
	}
	if err := t.parseArguments(u.RawQuery); err != nil {
		return bad("%v", err)
	}
	if t.Path, err = cleanPath(u.Path); err != nil {
		return bad("%v", err)
	}
	return t, nil
}

func parsePort(s string) (uint16, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("port %q must be from 1 to 65535", s)
	}
	return uint16(n), nil
}

func (t *Target) parseArguments(query string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return err
	}
	for name, v := range values {
		value := v[len(v)-1]
		switch name {
		case "port", "nfsport":
			t.Port, err = parsePort(value)
		case "mountport":
			t.MountPort, err = parsePort(value)
		case "version":
			if value != "3" {
				err = fmt.Errorf("version %q: only 3 is spoken", value)
			}
		default:
			err = fmt.Errorf("unknown argument %q; known are port, nfsport, mountport and version", name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func cleanPath(p string) (string, error) {
	var b strings.Builder
	for c := range strings.SplitSeq(p, "/") {
		switch {
		case c == "":
			continue
		case c == "." || c == "..":
			return "", fmt.Errorf("the path must not hold %q", c)
		case len(c) > maxName:
			return "", fmt.Errorf("a name has %d bytes, more than %d", len(c), maxName)
		case strings.ContainsRune(c, 0):
			return "", fmt.Errorf("the path holds a NUL byte")
		}
		b.WriteString("/" + c)
	}
	switch {
	case b.Len() > maxPath:
		return "", fmt.Errorf("the path has %d bytes, more than %d", b.Len(), maxPath)
	case b.Len() == 0:
		return "/", nil
	}
	return b.String(), nil
}

// URL is the target as ParseURL reads it.
func (t Target) URL() string {
	u := url.URL{Scheme: "nfs", Host: t.Host, Path: t.Path}
	if strings.Contains(t.Host, ":") {
		u.Host = "[" + t.Host + "]"
	}
	if t.Port != 0 {
		u.Host += ":" + strconv.Itoa(int(t.Port))
	}
	if t.MountPort != 0 {
		u.RawQuery = "mountport=" + strconv.Itoa(int(t.MountPort))
	}
	return u.String()
}
