//go:build !race

package exports

const raceEnabled = false
