// Package exports tests over the wire that an exports file means here what
// exports(5) says. It runs the program in network and mount namespaces of its
// own, with clients at many addresses. What is expected is from the manual page
// and from nfs-utils and Linux nfsd, as named at each test.
package exports
