package overlay

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"unsafe"
)

// TestNodeIsSmall: the kernel may have a node for each of many thousand files. 192 is a size class of the allocator.
func TestNodeIsSmall(t *testing.T) {
	if size := unsafe.Sizeof(node{}); size > 192 {
		t.Errorf("a node takes %d bytes", size)
	}
}

// crowdedStand hears of too many nodes.
type crowdedStand struct {
	*stand
	told int
}

func (c *crowdedStand) Crowded() { c.told++ }

// TestSpare: who listens is told of too many nodes, and then not again before there are many more; what is spare is older, not
// open and has nothing below it, and a forget of it makes room.
func TestSpare(t *testing.T) {
	const limit = 100
	s := newStand(t, 1)
	s.close()
	c := &crowdedStand{stand: s}
	s.set = func(o *Options) { o.Nodes, o.Notify = limit, c }
	s.open()
	dir, err := s.look(RootNode, s.mkdirAt("d"))
	if err != nil {
		t.Fatal(err)
	}
	ids := map[NodeID]bool{}
	for i := range limit - 20 {
		ids[s.lookMade(dir, fmt.Sprintf("d/%d", i))] = true
	}
	if c.told != 0 || s.e.Spare(10) != nil && s.e.Nodes() < limit*3/4 {
		t.Errorf("told %d times of %d nodes", c.told, s.e.Nodes())
	}
	for i := range 40 {
		ids[s.lookMade(dir, fmt.Sprintf("d/more%d", i))] = true
	}
	if c.told == 0 {
		t.Fatalf("nobody was told of %d nodes", s.e.Nodes())
	}
	nodes := s.e.Nodes()
	spare := s.e.Spare(1000)
	if len(spare) == 0 || len(spare) > nodes-limit*3/4 {
		t.Errorf("%d of %d nodes are spare", len(spare), nodes)
	}
	for _, id := range spare {
		if !ids[id] {
			t.Errorf("node %d is spare", id)
		}
		s.e.Forget(id, s.held[id])
		delete(s.held, id)
	}
	if got := s.e.Nodes(); got != nodes-len(spare) {
		t.Errorf("%d nodes are left of %d without %d", got, nodes, len(spare))
	}
	s.e.Spared(true)
	told := c.told
	for i := range 100 {
		s.lookMade(dir, fmt.Sprintf("d/last%d", i))
	}
	if c.told != told {
		t.Error("it was told although nothing can be done")
	}
}

// mkdirAt makes a directory in the root, not by the engine, and gives its name.
func (s *stand) mkdirAt(name string) string {
	s.t.Helper()
	if err := os.Mkdir(filepath.Join(s.dir, name), 0o755); err != nil {
		s.t.Fatal(err)
	}
	return name
}

// lookMade makes a file, not by the engine, and looks it up.
func (s *stand) lookMade(dir NodeID, path string) NodeID {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, path), nil, 0o644); err != nil {
		s.t.Fatal(err)
	}
	id, err := s.look(dir, filepath.Base(path))
	if err != nil {
		s.t.Fatal(err)
	}
	return id
}
