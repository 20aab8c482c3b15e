package overlay

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// TestVerifyCounts: the words.
func TestVerifyCountsText(t *testing.T) {
	n := VerifyCounts{Tasks: 1, Images: 2, Blobs: 1}
	if got, want := n.String(), "1 task, 2 images, 0 pieces, 0 records, 1 blob: 0 problems"; got != want {
		t.Errorf("%q", got)
	}
}

// kept is a workspace with entries, copies and blobs in many tasks.
func kept(t *testing.T) *stand {
	s := newStand(t, 1)
	for i := range 3 {
		s.must(s.create(fmt.Sprintf("big%d", i), strings.Repeat("0123456789abcdef", 80<<10), 0o644))
		s.must(s.create(fmt.Sprintf("f%d", i), "small", 0o644))
	}
	s.old()
	for i := range 3 {
		s.begin("t")
		s.must(errors.Join(s.rewrite(fmt.Sprintf("big%d", i), strings.Repeat("another ", 100<<10)), s.unlink(fmt.Sprintf("f%d", i))))
		if i == 0 {
			s.must(s.e.Archive())
		}
	}
	return s
}

// TestVerifyBesideMoves: while tasks are taken back and done again, archived and written to, nothing is taken for damage.
func TestVerifyBesideMoves(t *testing.T) {
	s := kept(t)
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for ctx.Err() == nil {
				if _, err := s.e.Verify(ctx, func(p string) { t.Error(p) }); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range 15 {
		s.undo()
		if i%3 == 0 {
			s.must(s.e.Archive())
		}
		s.undo()
		s.redo()
		s.redo()
		s.must(s.rename("big0", "moved", 0))
		s.must(s.rename("moved", "big0", 0))
	}
	stop()
	wg.Wait()
	if _, err := s.e.Verify(ctx, func(string) {}); !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
	s.verify()
}

// TestVerifyTells: what is gone from hold is told once, with the task that wants it.
func TestVerifyTells(t *testing.T) {
	s := kept(t)
	all, err := filepath.Glob(filepath.Join(s.dir, StoreName, "hold", "*"))
	s.must(err)
	kinds := map[string]int{}
	for _, p := range all {
		kinds[filepath.Base(p)[:1]]++
		s.must(os.Remove(p))
	}
	if kinds["o"] == 0 || kinds["c"] == 0 {
		t.Fatalf("hold has only %v", kinds)
	}
	var told []string
	n, err := s.e.Verify(t.Context(), func(p string) { told = append(told, p) })
	s.must(err)
	if n.Problems != len(told) || n.Problems != len(all) {
		t.Errorf("%d of %d are told: %q", n.Problems, len(all), told)
	}
	for _, p := range told {
		if !strings.HasPrefix(p, "task ") {
			t.Errorf("%q names no task", p)
		}
	}
}

// TestDiffBesideMoves: what a task changed is told the same while later ones are taken back and done again.
func TestDiffBesideMoves(t *testing.T) {
	s := newStand(t, 1)
	for i := range 400 {
		s.must(s.create(fmt.Sprintf("f%d", i), strings.Repeat("line\n", 200), 0o644))
	}
	s.old()
	for _, title := range []string{"one", "two"} {
		s.begin(title)
		for i := range 400 {
			s.must(s.append(fmt.Sprintf("f%d", i), title+"\n"))
		}
	}
	one, _ := s.e.Task(s.e.Active("a"))
	var want strings.Builder
	s.must(s.e.DiffTask(&want, one.Parent, nil))
	if n := strings.Count(want.String(), "+one\n"); n != 400 {
		t.Fatalf("%d files in the diff", n)
	}
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			var got strings.Builder
			if err := s.e.DiffTask(&got, one.Parent, nil); err != nil || got.String() != want.String() {
				t.Errorf("%v, %d bytes, want %d", err, got.Len(), want.Len())
				return
			}
		}
	})
	for range 10 {
		s.undo()
		s.redo()
	}
	stop()
	wg.Wait()
}
