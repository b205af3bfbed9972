//go:build race

package disk

// raceEnabled has the server built with the race detector too.
const raceEnabled = true
