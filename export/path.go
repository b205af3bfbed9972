package export

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
)

// resolvePath is realpath(3) of p below root: symbolic links are followed as
// if root were "/". Directories are remembered in known, since thousands of
// exports tend to share theirs.
func resolvePath(root, p string, known map[string]string) (string, error) {
	if !strings.HasPrefix(p, "/") {
		// realpath would start from the working directory, which for a
		// server means nothing.
		return "", syscall.ENOENT
	}
	w := pathWalk{root: root, known: known}
	return w.walk(p)
}

// pathWalk is one path being resolved.
type pathWalk struct {
	root  string
	known map[string]string
	links int
}

func (w *pathWalk) walk(p string) (string, error) {
	dir := "/"
	for p != "" {
		var name string
		var slash bool
		name, p, slash = strings.Cut(p, "/")
		switch name {
		case "", ".":
			continue
		case "..":
			dir = path.Dir(dir)
			continue
		}
		next, err := w.step(dir, name)
		if err != nil {
			return "", err
		}
		dir = next
		// What is followed by a slash has to be a directory.
		if slash {
			if err := w.isDir(dir); err != nil {
				return "", err
			}
		}
	}
	return dir, nil
}

// step resolves one name in a resolved directory.
func (w *pathWalk) step(dir, name string) (string, error) {
	p := path.Join(dir, name)
	if to, ok := w.known[p]; ok {
		return to, nil
	}
	fi, err := os.Lstat(w.host(p))
	if err != nil {
		return "", err
	}
	if fi.Mode()&fs.ModeSymlink == 0 {
		if fi.IsDir() {
			w.known[p] = p
		}
		return p, nil
	}
	if w.links++; w.links > maxSymlinks {
		return "", syscall.ELOOP
	}
	to, err := os.Readlink(w.host(p))
	if err != nil {
		return "", err
	}
	if !strings.HasPrefix(to, "/") {
		to = dir + "/" + to
	}
	return w.walk(to)
}

func (w *pathWalk) isDir(p string) error {
	if _, ok := w.known[p]; ok {
		return nil
	}
	fi, err := os.Lstat(w.host(p))
	switch {
	case err != nil:
		return err
	case !fi.IsDir():
		return syscall.ENOTDIR
	}
	return nil
}

// host is the name of p on this machine.
func (w *pathWalk) host(p string) string { return hostPath(w.root, p) }

func hostPath(root, p string) string {
	if root == "" || root == "/" {
		return p
	}
	return strings.TrimSuffix(root, "/") + p
}

// reason is the bare reason of a path error: "no such file or directory".
func reason(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err.Error()
	}
	return err.Error()
}
