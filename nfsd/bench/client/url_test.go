package client

import (
	"strings"
	"testing"
)

// The forms are those of libnfs's URLs (its README, "URL-FORMAT").
func TestParseURL(t *testing.T) {
	for s, want := range map[string]Target{
		"nfs://host/export/file":                        {Host: "host", Path: "/export/file"},
		"nfs://192.0.2.1:2049/a":                        {Host: "192.0.2.1", Port: 2049, Path: "/a"},
		"nfs://[2001:db8::1]:20/a/b":                    {Host: "2001:db8::1", Port: 20, Path: "/a/b"},
		"nfs://[2001:db8::1]/a":                         {Host: "2001:db8::1", Path: "/a"},
		"nfs://h/a?nfsport=3&mountport=4&version=3":     {Host: "h", Port: 3, MountPort: 4, Path: "/a"},
		"nfs://h/a?port=65535":                          {Host: "h", Port: 65535, Path: "/a"},
		"nfs://h//a///b/":                               {Host: "h", Path: "/a/b"},
		"nfs://h":                                       {Host: "h", Path: "/"},
		"nfs://h/with%20space/%C3%A9%3F":                {Host: "h", Path: "/with space/é?"},
		"nfs://h/" + strings.Repeat("x", 255) + "/tail": {Host: "h", Path: "/" + strings.Repeat("x", 255) + "/tail"},
	} {
		got, err := ParseURL(s)
		if err != nil || got != want {
			t.Errorf("%q: %+v, %v; want %+v", s, got, err, want)
			continue
		}
		if again, err := ParseURL(got.URL()); err != nil || again != want {
			t.Errorf("%q: written as %q, it is %+v, %v", s, got.URL(), again, err)
		}
	}
	for _, bad := range []string{"", "host:/export", "/export", "http://h/a", "nfs:h/a", "nfs:///a", "nfs://u:p@h/a", "nfs://h:/a",
		"nfs://h:0/a", "nfs://h:65536/a", "nfs://h:x/a", "nfs://h/a?version=4", "nfs://h/a?mountport=0", "nfs://h/a?rsize=4",
		"nfs://h/a#b", "nfs://h/a/../b", "nfs://h/./a", "nfs://h/a%00b", "nfs://h/%zz", "nfs://h/" + strings.Repeat("x", 256),
		"nfs://h/" + strings.Repeat("x/", 600)} {
		if got, err := ParseURL(bad); err == nil {
			t.Errorf("%q: %+v", bad, got)
		}
	}
}

func FuzzParseURL(f *testing.F) {
	f.Add("nfs://host:1/a/b?mountport=2")
	f.Add("nfs://[::1]/%20")
	f.Fuzz(func(t *testing.T, s string) {
		got, err := ParseURL(s)
		if err != nil {
			return
		}
		if len(got.Path) > maxPath || got.Path[0] != '/' || strings.ContainsRune(got.Path, 0) || got.Host == "" {
			t.Errorf("%q: %+v", s, got)
		}
	})
}
