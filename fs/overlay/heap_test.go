package overlay

import (
	"fmt"
	"os"
	"runtime"
	"testing"
)

// TestTasksAreSmall: what an engine that runs long keeps of a task that was left is a record, not what it touched.
func TestTasksAreSmall(t *testing.T) {
	long := os.Getenv("TTFS_NIGHTLY") != ""
	tasks := 300
	if long {
		tasks = 20_000
	}
	s := newStand(t, 1)
	for i := range 20 {
		if err := s.create(fmt.Sprintf("f%d", i), "content", 0o644); err != nil {
			t.Fatal(err)
		}
	}
	work := func(from, to int) uint64 {
		for i := from; i < to; i++ {
			s.begin("one of many")
			for j := range 5 {
				if err := s.write(fmt.Sprintf("f%d", (i+j)%20), 0, fmt.Sprint(i)); err != nil {
					t.Fatal(err)
				}
			}
		}
		s.told, s.lines = nil, nil
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := work(0, 500)
	after := work(500, 500+tasks)
	each := (int64(after) - int64(before)) / int64(tasks)
	t.Logf("%d bytes a task", each)
	s.e.tasks.mu.Lock()
	runs := len(s.e.tasks.runs)
	s.e.tasks.mu.Unlock()
	if runs > 10 {
		t.Errorf("what %d tasks touched is kept", runs)
	}
	if long && each > 1500 { // in a short run the journal's own tables outweigh it
		t.Errorf("%d tasks more: %d bytes for each are kept", tasks, each)
	}
}
