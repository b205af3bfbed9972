//go:build race

package exports

// raceEnabled says that times mean nothing.
const raceEnabled = true
