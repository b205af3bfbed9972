//go:build race

package nfsd

const raceEnabled = true
