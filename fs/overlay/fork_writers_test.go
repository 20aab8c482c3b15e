package overlay

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestForkFrozenWriters: what a program of the parent writes without the daemon seeing it, by passthrough or through a
// mapping, from before the fork or after it, does not come into the fork.
func TestForkFrozenWriters(t *testing.T) {
	t.Parallel()
	s := newStand(t, 1)
	s.e.SetPassthrough(true)
	for i := range 4 {
		s.must(s.create(fmt.Sprint("f", i), strings.Repeat("before ", 10_000), 0o600))
	}
	s.begin("next")
	rw := func(path string) *Handle {
		h, err := s.openFile(path, unix.O_RDWR)
		s.must(err)
		if h.Mode() != Passthrough {
			t.Fatalf("%s is not passed through", path)
		}
		return h
	}
	early, released := rw("f0"), rw("f1")
	mapping, err := unix.Mmap(released.FD(), 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	s.must(err)
	defer unix.Munmap(mapping)
	s.release(released)
	want := s.seen()
	f := s.fork("one")
	late := rw("f2")
	for _, h := range []*Handle{early, late} {
		_, err := unix.Pwrite(h.FD(), []byte("AFTER"), 100)
		s.must(err)
		s.must(unix.Ftruncate(h.FD(), 50_000))
	}
	copy(mapping, "MAPPED")
	h, err := s.openFile("f3", unix.O_WRONLY|unix.O_APPEND)
	s.must(err)
	s.must(second(s.e.Write(s.caller(), h, []byte("appended"), 0, true, false)))
	s.same(f.seen(), want, "the fork")
	if b := s.seen(); differ(b, want) == "" {
		t.Error("the parent has not changed")
	}
	two := s.fork("two")
	is := s.seen()
	s.same(two.seen(), is, "the second fork")
	_, err = unix.Pwrite(early.FD(), []byte("again"), 0)
	s.must(err)
	copy(mapping, "mapped again")
	s.same(f.seen(), want, "the fork, later")
	s.same(two.seen(), is, "the second fork, later")
}

// TestForkModes: a file is served in one way or the other for all who have it open.
func TestForkModes(t *testing.T) {
	t.Parallel()
	s := newStand(t, 1)
	s.e.SetPassthrough(true)
	s.must(s.create("a", "content", 0o600))
	f := s.fork("one")
	f.e.SetPassthrough(true)
	r, err := f.openFile("a", unix.O_RDONLY)
	s.must(err)
	w, err := f.openFile("a", unix.O_RDWR)
	s.must(err)
	if r.Mode() != Cached || w.Mode() != Direct {
		t.Errorf("a reader of the lower is served in mode %d, and a writer beside it in mode %d", r.Mode(), w.Mode())
	}
	s.must(f.writeAt(w, 0, "CON"))
	if got := f.read(r); got != "CONtent" {
		t.Errorf("the reader reads %q", got)
	}
	f.release(r)
	f.release(w)
	if r, err = f.openFile("a", unix.O_RDONLY); err != nil || r.Mode() != Passthrough || r.Unchanging() {
		t.Errorf("what the fork has of its own is served in mode %d, %v", r.Mode(), err)
	}
}

// TestForkListing raises and removes what a listing has still to give.
func TestForkListing(t *testing.T) {
	t.Parallel()
	s := newStand(t, 1)
	s.must(s.mkdir("d", 0o700))
	for i := range 300 {
		s.must(s.create(fmt.Sprintf("d/%03d", i), "x", 0o600))
	}
	f := s.fork("one")
	id, err := f.walk("d")
	s.must(err)
	d, err := f.e.OpenDir(id)
	s.must(err)
	var got []string
	for at, more := uint64(0), true; more; {
		more = false
		s.must(f.e.Next(d, at, func(ent Dirent) bool {
			if more {
				return false
			}
			more, at = true, ent.Next
			if !strings.HasPrefix(ent.Name, ".") {
				got = append(got, ent.Name)
			}
			return true
		}))
		if n := len(got); more && n > 0 && n%3 == 0 {
			s.must(f.unlink("d/" + got[n-1]))
		} else if more && n > 0 && n%3 == 1 {
			s.must(f.chmod("d/"+got[n-1], 0o400))
		}
	}
	f.e.CloseDir(d)
	if len(got) != 300 || got[0] != "000" || got[299] != "299" {
		t.Errorf("%d names were listed", len(got))
	}
	names, err := f.list(id)
	s.must(err)
	if len(names) != 200 {
		t.Errorf("%d are left", len(names))
	}
	s.must(f.rmdir("d"), unix.ENOTEMPTY)
	s.must(f.removeAll("d"))
	s.must(f.mkdir("d", 0o700))
	if id, err = f.walk("d"); err == nil {
		names, err = f.list(id)
	}
	if err != nil || len(names) != 0 {
		t.Errorf("made again, it has %v, %v", names, err)
	}
}

// BenchmarkFork is the making and discarding of a fork of a workspace with many files.
func BenchmarkFork(b *testing.B) {
	for _, n := range []int{10, 5000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := newStand(b, 1)
			for i := range n {
				s.must(s.create(fmt.Sprint("f", i), "x", 0o600))
			}
			for b.Loop() {
				_, err := s.e.Fork(ForkOptions{Name: "one"})
				s.must(err)
				b.StopTimer()
				s.must(s.e.Discard("one", false))
				b.StartTimer()
			}
		})
	}
}
