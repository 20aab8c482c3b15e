package fs

import (
	"testing"
	"time"
)

// TestOneSearchForMany: moves that ended before a search began share it; a later one has another.
func TestOneSearchForMany(t *testing.T) {
	r := &replay{dev: 1}
	r.turn.Lock()
	defer r.turn.Unlock()
	first, second := time.Now(), time.Now()
	r.watchedSince(first)
	at := r.searched
	if at.IsZero() {
		t.Fatal("nothing was searched")
	}
	if r.watchedSince(second); r.searched != at {
		t.Error("a move that had ended before the search has another")
	}
	if r.watchedSince(time.Now()); r.searched == at {
		t.Error("a move that ended after the search has none")
	}
}
