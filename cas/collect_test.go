package cas

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
)

func TestCollect(t *testing.T) {
	a, b, c := text(ChunkBytes), make([]byte, ChunkBytes), random(3, 77)
	small := random(4, 10)
	blobs := map[string][]byte{"ab": join(a, b), "abc": join(a, b, c), "a": a, "c": c, "small": small}
	chunks := map[string]Ref{"a": SumBytes(a), "b": SumBytes(b), "c": SumBytes(c), "small": SumBytes(small)}
	for name, tc := range map[string]struct {
		live, left []string // left: chunks
	}{
		"all":              {[]string{"ab", "abc", "a", "c", "small"}, []string{"a", "b", "c", "small"}},
		"none":             {nil, nil},
		"a chunk alone":    {[]string{"a"}, []string{"a"}},
		"chunks of a list": {[]string{"ab"}, []string{"a", "b"}},
		"shared chunks":    {[]string{"abc"}, []string{"a", "b", "c"}},
		"no list":          {[]string{"small", "c"}, []string{"c", "small"}},
	} {
		t.Run(name, func(t *testing.T) {
			o, _ := memory()
			s := open(t, "s", o)
			refs := map[string]Ref{}
			for name, content := range blobs {
				refs[name] = mustPut(t, s, content)
			}
			live, left := map[Ref]bool{}, map[Ref]bool{}
			lists := 0
			for _, name := range tc.live {
				live[refs[name]] = true
				if len(blobs[name]) > ChunkBytes {
					lists++
				}
			}
			for _, name := range tc.left {
				left[chunks[name]] = true
			}
			removed, freed, err := s.Collect(t.Context(), func(ref Ref) bool { return live[ref] })
			if err != nil || removed != 6-lists-len(left) || (freed > 0) != (removed > 0) {
				t.Errorf("Collect = %d, %d, %v", removed, freed, err)
			}
			for name, ref := range refs {
				if live[ref] {
					wantGet(t, s, ref, blobs[name])
				} else if ok, err := s.Has(ref); err != nil || ok != left[ref] {
					t.Errorf("Has(%s) = %v, %v", name, ok, err)
				}
			}
			if again, _, err := s.Collect(t.Context(), func(ref Ref) bool { return live[ref] }); again != 0 || err != nil {
				t.Errorf("second Collect = %d, %v", again, err)
			}
			if named := verify(t, s); len(named) != 0 {
				t.Errorf("Verify names %v", named)
			}
		})
	}
}

func TestCollectManyGivesSpaceBack(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	const n = 3*collectGroup + 17
	for i := range n {
		mustPut(t, s, random(uint64(i), 5_000))
	}
	kept := SumBytes(random(7, 5_000))
	removed, freed, err := s.Collect(t.Context(), func(ref Ref) bool { return ref == kept })
	if err != nil || removed != n-1 || freed < (n-1)*5_000 {
		t.Fatalf("Collect = %d, %d, %v", removed, freed, err)
	}
	if got := s.Stats().Removed; got != n-1 {
		t.Errorf("Stats.Removed = %d", got)
	}
	wantGet(t, s, kept, random(7, 5_000))
}

func TestCollectIsStopped(t *testing.T) {
	o, _ := memory()
	s := open(t, "s", o)
	ref := mustPut(t, s, []byte("x"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err := s.Collect(ctx, func(Ref) bool { return false })
	if wantKind(t, err, ErrStopped); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	_, err = s.Verify(ctx, func(Problem) {})
	wantKind(t, err, ErrStopped)
	wantGet(t, s, ref, []byte("x"))
}

// A put that Collect meets half way, new or a duplicate, is not damaged by it.
func TestPutDuringCollect(t *testing.T) {
	o, _ := memory()
	s := open(t, "s", o)
	large := join(random(1, ChunkBytes), random(2, ChunkBytes), random(3, 9))
	old := []byte("there before and put again")
	oldRef := mustPut(t, s, old)
	mustPut(t, s, []byte("dead"))

	// The reader blocks behind the first chunk until Collect has begun, and
	// Collect goes on only when the whole has been put.
	r, w := io.Pipe()
	put := make(chan error)
	go func() {
		_, _, err := s.PutReader(r)
		put <- err
	}()
	if _, err := w.Write(large[:ChunkBytes+1]); err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	removed, _, err := s.Collect(t.Context(), func(Ref) bool {
		once.Do(func() {
			_, err := w.Write(large[ChunkBytes+1:])
			if err := errors.Join(err, w.Close(), <-put); err != nil {
				t.Error(err)
			}
			mustPut(t, s, old)
		})
		return false
	})
	if err != nil || removed != 1 {
		t.Errorf("Collect = %d, %v", removed, err)
	}
	wantGet(t, s, SumBytes(large), large)
	wantGet(t, s, oldRef, old)
	if n, _, err := s.Collect(t.Context(), func(Ref) bool { return false }); n != 5 || err != nil {
		t.Errorf("Collect later = %d, %v", n, err)
	}
	if len(s.pins.held) != 0 || s.pins.recent != nil {
		t.Errorf("pins left: %v, %v", s.pins.held, s.pins.recent)
	}
}

// Many put, read, collect, verify and sync at once. A blob is live from its
// Put on until its writer lets go of it, as Collect asks for.
func TestConcurrent(t *testing.T) {
	o, _ := memory()
	s := open(t, "s", o)
	var mu sync.Mutex
	live := map[Ref]int{}
	hold := func(ref Ref, n int) {
		mu.Lock()
		defer mu.Unlock()
		live[ref] += n
	}
	var writers, others sync.WaitGroup
	done := make(chan struct{})
	for w := range 4 {
		writers.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 1))
			for range 25 {
				b := random(uint64(rng.IntN(5)), 3000)
				if rng.IntN(6) == 0 {
					b = join(text(ChunkBytes), b)
				}
				want := SumBytes(b)
				hold(want, 1)
				ref, _, err := s.PutReader(bytes.NewReader(b))
				if err != nil || ref != want {
					t.Errorf("PutReader = %s, %v", ref, err)
					return
				}
				got, err := s.Get(ref)
				if err != nil || !bytes.Equal(got, b) {
					t.Errorf("Get = %d bytes, %v", len(got), err)
				}
				hold(want, -1)
			}
		})
	}
	background := func(step func() error) {
		others.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if err := step(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	background(func() error {
		_, _, err := s.Collect(t.Context(), func(ref Ref) bool {
			mu.Lock()
			defer mu.Unlock()
			return live[ref] > 0
		})
		return err
	})
	background(func() error {
		_, err := s.Verify(t.Context(), func(p Problem) { t.Error(p.Err) })
		return err
	})
	background(s.Sync)
	writers.Wait()
	close(done)
	others.Wait()
}

// Close ends a Collect and a Verify, waits for them, and panics nobody.
func TestCloseWhileBusy(t *testing.T) {
	o, _ := memory()
	s := open(t, "s", o)
	for i := range 50 {
		mustPut(t, s, random(uint64(i), 100))
	}
	var wg sync.WaitGroup
	begun := make(chan struct{}, 100)
	until := func(call func() error) {
		wg.Go(func() {
			for n := 0; ; n++ {
				if err := call(); err != nil {
					wantClosed(t, err)
					return
				}
				if n == 0 {
					begun <- struct{}{}
				}
			}
		})
	}
	until(func() error { _, err := s.Put([]byte("x")); return err })
	until(func() error { _, err := s.Get(SumBytes(random(1, 100))); return err })
	until(func() error { _, err := s.Verify(t.Context(), func(p Problem) { t.Error(p.Err) }); return err })
	until(func() error { _, _, err := s.Collect(t.Context(), func(Ref) bool { return true }); return err })
	until(s.Sync)
	for range 5 {
		<-begun
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	wg.Wait()
}

func wantClosed(t *testing.T, err error) {
	if !errors.Is(err, ErrClosed) {
		t.Errorf("error %v, want %v", err, ErrClosed)
	}
}
