package overlay

import (
	"bytes"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestMappedAcrossBoundary writes through a shared mapping whose descriptor is closed, in the task that mapped, in a later
// one and after a move: each is taken back by itself.
func TestMappedAcrossBoundary(t *testing.T) {
	t.Parallel()
	s := newStand(t, 1)
	start(s)
	s.e.SetPassthrough(true)
	s.begin("map")
	h, err := s.createOpen("map", unix.O_RDWR, 0o644)
	s.must(err)
	if h.Mode() != Passthrough {
		t.Fatalf("a new file is served in mode %d", h.Mode())
	}
	s.must(unix.Ftruncate(h.FD(), 8192))
	m, err := unix.Mmap(h.FD(), 0, 8192, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	s.must(err)
	s.release(h)
	fill := func(c byte) {
		copy(m, bytes.Repeat([]byte{c}, 5000))
		s.must(unix.Msync(m, unix.MS_SYNC))
	}
	fill('1')
	ends := []map[string]string{s.snapshot(true)}
	for _, c := range []byte("23") {
		s.begin("next")
		fill(c)
		ends = append(ends, s.snapshot(true))
	}
	s.undo()
	s.check("undo", ends[1])
	s.undo()
	s.check("undo twice", ends[0])
	s.redo()
	s.check("redo", ends[1])
	fill('4')
	s.begin("after the move") // what was written since is in this task
	s.undo()
	s.check("undo of what was written after a move", ends[1])
	s.must(unix.Munmap(m))
	s.begin("without a mapping")
	s.e.writers.mu.Lock()
	defer s.e.writers.mu.Unlock()
	if n, k := len(s.e.writers.mapped), len(s.e.writers.all); n+k > 0 {
		t.Errorf("%d of %d writers stay without a mapping", n, k)
	}
}

// TestMappedManyTimes closes more files that are mapped than are looked at once, and the same ones again.
func TestMappedManyTimes(t *testing.T) {
	t.Parallel()
	s := newStand(t, 1)
	start(s)
	s.e.SetPassthrough(true)
	s.begin("map")
	var maps [][]byte
	for round := range 3 {
		for i := range sweepFrom + 3 {
			name := "m" + strings.Repeat("x", i)
			if round == 0 {
				s.must(s.create(name, "0123456789", 0o644))
			}
			h, err := s.openFile(name, unix.O_RDWR)
			s.must(err)
			m, err := unix.Mmap(h.FD(), 0, 10, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
			s.must(err)
			s.release(h)
			maps = append(maps, m)
		}
	}
	s.e.writers.mu.Lock()
	n := len(s.e.writers.mapped)
	s.e.writers.mu.Unlock()
	if n != sweepFrom+3 {
		t.Errorf("%d writers stay for %d mapped files", n, sweepFrom+3)
	}
	before := s.snapshot(true)
	s.begin("change all")
	for _, m := range maps {
		m[3]++
		s.must(unix.Msync(m, unix.MS_SYNC))
	}
	s.undo()
	s.check("undo", before)
	for _, m := range maps {
		s.must(unix.Munmap(m))
	}
	pass, err := s.e.enterOn(s.agent)
	s.must(err)
	s.e.sweepMapped(s.agent, true)
	pass.leave()
	if n := len(s.e.writers.of(s.agent)); n > 0 {
		t.Errorf("%d writers stay without a mapping", n)
	}
}

// TestArmedTwice writes through two descriptors of one file after a move, in two tasks.
func TestArmedTwice(t *testing.T) {
	t.Parallel()
	s := newStand(t, 1)
	start(s)
	s.e.SetPassthrough(true)
	s.begin("open")
	s.must(s.create("twice", "0000", 0o644))
	s.begin("move")
	var hs []*Handle
	for range 2 {
		h, err := s.openFile("twice", unix.O_RDWR)
		s.must(err)
		hs = append(hs, h)
	}
	s.undo()
	put := func(c string) map[string]string {
		_, err := unix.Pwrite(hs[0].FD(), []byte(c), 0)
		s.must(err)
		return s.snapshot(true)
	}
	s.begin("one")
	one := put("1111")
	s.begin("two")
	put("2222")
	s.begin("three")
	put("3333")
	s.undo()
	s.undo()
	s.check("undo of two tasks", one)
	for _, h := range hs {
		s.release(h)
	}
}

// TestDiffOfFileThatBecameDirectory has paths below what is a file on one side.
func TestDiffOfFileThatBecameDirectory(t *testing.T) {
	t.Parallel()
	s := newStand(t, 1)
	start(s)
	s.begin("file")
	s.must(s.create("was", "a file\n", 0o644))
	s.begin("directory")
	s.must(s.unlink("was"))
	s.must(s.mkdir("was", 0o755))
	s.must(s.create("was/below", "in it\n", 0o644))
	var b bytes.Buffer
	s.must(s.e.DiffTask(&b, s.e.Active("a"), nil))
	if got := b.String(); !strings.Contains(got, "+++ b/was/below") {
		t.Errorf("the diff is %q", got)
	}
}

// TestCreateWhileTaskBegins makes files while tasks begin: what is written to each after that is in the task that began.
func TestCreateWhileTaskBegins(t *testing.T) {
	t.Parallel()
	s := newStand(t, 1)
	start(s)
	s.e.SetPassthrough(true)
	for range 300 {
		began := make(chan error)
		go func() { _, err := s.e.BeginTask("a", "while"); began <- err }()
		_, h, err := s.e.Create(s.caller(), RootNode, "made", unix.O_WRONLY, 0o644)
		if err := <-began; err != nil {
			t.Fatal(err)
		}
		s.must(err)
		kept, err := s.e.kept(s.e.activeRun("a"), h.n)
		s.must(err)
		s.e.Release(h)
		s.must(s.e.Unlink(s.caller(), RootNode, "made"))
		if !kept {
			t.Fatal("a file that is open for passthrough can be written to in a task that does not keep it")
		}
	}
}
