// Command gonfs serves the directory of a file with github.com/willscott/go-nfs, as
// that package's own example does.
//
//	gonfs FILE [ADDR:PORT]
//
// prints the URL of the file, and serves it until it is killed.
package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/willscott/go-nfs"
	"github.com/willscott/go-nfs/helpers"
)

// handles is how many file handles are remembered, as in the package's example.
const handles = 1024

func main() {
	addr := "127.0.0.1:0"
	switch len(os.Args) {
	case 2:
	case 3:
		addr = os.Args[2]
	default:
		fmt.Fprintln(os.Stderr, "usage: gonfs FILE [ADDR:PORT]")
		os.Exit(2)
	}
	fmt.Fprintln(os.Stderr, "gonfs:", serve(os.Args[1], addr))
	os.Exit(1)
}

// serve runs until it fails.
func serve(file, addr string) error {
	file, err := filepath.Abs(file)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	// Whatever directory is asked for, MNT gives the root of the file system.
	fmt.Printf("nfs://%s%s\n", l.Addr(), file)
	handler := helpers.NewNullAuthHandler(osfs.New(filepath.Dir(file)))
	return nfs.Serve(l, helpers.NewCachingHandler(handler, handles))
}
