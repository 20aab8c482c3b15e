package cas

import (
	"context"
	"errors"
	"testing"
	"time"
)

// TestGiveBack makes what was collected free space at once, and keeps what is live.
func TestGiveBack(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{FloorBytes: -1})
	kept := random(1, 300_000)
	keep := mustPut(t, s, kept)
	for i := range 80 {
		mustPut(t, s, random(uint64(100+i), 500_000))
	}
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := s.GiveBack(t.Context()); err != nil {
		t.Fatal(err)
	}
	full := s.Stats().DiskBytes
	if _, _, err := s.Collect(t.Context(), func(ref Ref) bool { return ref == keep }); err != nil {
		t.Fatal(err)
	}
	if err := s.GiveBack(t.Context()); err != nil {
		t.Fatal(err)
	}
	for t0 := time.Now(); s.Stats().DiskBytes > full/2; time.Sleep(giveBackLook) { // what is left are logs to be used again
		if time.Since(t0) > giveBackWait {
			t.Fatalf("%d bytes before, %d after", full, s.Stats().DiskBytes)
		}
	}
	wantGet(t, s, keep, kept)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	mustPut(t, s, random(2, 100))
	if err := s.GiveBack(ctx); !errors.Is(err, ErrStopped) {
		t.Errorf("stopped: %v", err)
	}
}
