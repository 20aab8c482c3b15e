//go:build race

package overlay

// underRace says that everything takes many times longer.
const underRace = true
