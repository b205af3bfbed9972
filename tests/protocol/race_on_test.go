//go:build race

package protocol

// raceEnabled makes the server under test be built with the race detector too.
const raceEnabled = true
