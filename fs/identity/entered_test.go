package identity

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestEnteredWithinATick: of processes that started in the tick of a move, and are seen only later, their numbers tell which
// were there before it.
func TestEnteredWithinATick(t *testing.T) {
	f := newFake(t)
	f.put(entry{pid: 10, ppid: 1, session: 10, start: f.ticks(), comm: "main"})
	r := f.resolver(Options{})
	if err := r.Register(10, "main", ""); err != nil {
		t.Fatal(err)
	}
	youngest := func(pid int) {
		if err := os.WriteFile(filepath.Join(f.dir, "loadavg"), fmt.Appendf(nil, "0.00 0.00 0.00 1/99 %d\n", pid), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	f.pass(time.Second)
	youngest(30)
	r.Activated("main", 30)
	f.put(entry{pid: 31, ppid: 10, session: 10, start: f.ticks(), comm: "early"})
	youngest(31)
	r.Activated("main", 18) // an undo
	f.put(entry{pid: 32, ppid: 10, session: 10, start: f.ticks(), comm: "late"})
	f.pass(time.Second)
	youngest(maxPID - 2)
	r.Activated("main", 39)
	youngest(maxPID - 1)
	r.Activated("main", 40)
	f.put(entry{pid: 300, ppid: 10, session: 10, start: f.ticks(), comm: "again"}) // the numbers have begun anew
	f.pass(time.Second)
	r.Activated("main", 50)
	for pid, want := range map[uint32]int{31: 30, 32: 18, 300: 40} {
		if got := r.EnteredTask(pid, 50); int(got) != want {
			t.Errorf("%d entered in %d, want %d", pid, got, want)
		}
	}
}
