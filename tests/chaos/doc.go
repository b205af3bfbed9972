// Command chaos reads through the server, checking every byte, while everything
// that can go wrong does: the server is killed, drained and replaced, disks hang
// and files change under it, peers flood it and lie to it, and attackers try to
// get out of an export.
//
// "make chaos" runs it for ten minutes and prints a report; CHAOS=2h makes that
// two hours, CHAOS_SEED repeats the choices of an earlier run, CHAOS_ONLY names a
// part of the faults. "go test ./tests/chaos" tries each fault once. It needs root,
// and lives in namespaces of its own that take everything with them when it ends.
//
//	suite.go     faults, trials, the report
//	world.go     namespaces, building the server
//	server.go    a server's lives; gauge.go: what it holds
//	client.go    calls; reader.go: readers that check every byte
//	restarts.go  kill, drain, hand-over; service.go: what a service manager sees
//	peers.go, fields.go, handles.go  hostile peers
//	faultfs.go, storage.go, files.go, mounts.go, scarce.go  storage and resources
//	escape.go    attackers
//	soak.go      whether anything is left behind
//	kernel.go    the Linux client in a guest
package main
