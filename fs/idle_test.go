package fs

import (
	"slices"
	"testing"

	"github.com/ttfs/ttfs/tasktree"
)

// idle is an idler with agents that have no process.
type idle []tasktree.Agent

// EndIdle ends those that need not be kept.
func (all idle) EndIdle(keep func(tasktree.Agent) bool) []tasktree.Agent {
	return slices.DeleteFunc(slices.Clone(all), keep)
}

func TestEndIdle(t *testing.T) {
	var v viewTable
	if v.number(&space{}, "viewed") == 0 {
		t.Fatal("no view")
	}
	var ended []tasktree.Agent
	end := func(a tasktree.Agent) { ended = append(ended, a) }
	endIdle(idle{"a", "viewed", "b-12"}, v.known, end)
	if want := []tasktree.Agent{"a", "b-12"}; !slices.Equal(ended, want) {
		t.Errorf("%q ended, want %q", ended, want)
	}
}
