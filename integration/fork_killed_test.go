package integration

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/ttfs/ttfs/integration/rig"
)

// forkedState is a tree without its times: names, modes, links and bytes.
const forkedState = `find . -path ./.tt -prune -o -printf '%p %m %l\n' | sort
find . -path ./.tt -prune -o -type f -print0 | sort -z | xargs -0 cat | sha256sum`

// TestForkWorkKilled kills the daemon at random instants while a fork is made, merged, and discarded. After the remount a fork is there and
// what the workspace was, or it is not there; a merge is whole, and undone by one undo, or was not begun; a discarded fork is gone
// with all that it had, or is what it was.
func TestForkWorkKilled(t *testing.T) {
	t.Parallel()
	const seed = 23
	random := rand.New(rand.NewPCG(seed, 0))
	w := mounted(t)
	w.Sh("mkdir d e; for i in $(seq 120); do echo line $i >d/$i; done; ln -s d/1 link; echo gone >e/gone").OK()
	state := func(of *rig.Workspace) string { return of.Sh(forkedState).OK().Stdout }
	reached := map[string]int{}
	kill := func(command string, most time.Duration) (acked bool) {
		t.Helper()
		ctl, err := os.OpenFile(w.Path(".tt/ctl"), os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() {
			_, err := ctl.WriteString(command)
			done <- err
			ctl.Close()
		}()
		// Whatever instant it is, more often an early one: the command is not waited for.
		x := random.Float64()
		<-time.After(time.Duration(x * x * x * float64(most)))
		w.Kill()
		err = <-done
		w.Bury()
		w.Mount()
		return err == nil
	}
	rounds := 6
	if os.Getenv("TTFS_NIGHTLY") == "1" {
		rounds = 200
	}
	for round := range rounds {
		at := fmt.Sprintf("round %d (seed %d): ", round, seed)
		name := fmt.Sprint("k", round)
		w.Task(name)
		before, tree := state(w), w.Snapshot()

		acked := kill("fork "+name, 10*time.Millisecond)
		w.Same(at+"the workspace after a death while it was forked", tree)
		if _, err := os.Lstat(w.Path(".tt/forks/" + name)); err == nil {
			reached["forked"]++
			if got := state(w.Fork(name)); got != before {
				t.Fatalf("%sthe fork is\n%s, not\n%s", at, got, before)
			}
		} else if acked {
			t.Fatalf("%sthe fork was made, and is gone: %v", at, err)
		} else {
			reached["not forked"]++
			w.Must("fork " + name)
		}

		f := w.Fork(name)
		f.Sh(`for i in d/*; do echo round "$1" >>"$i"; done; chmod 600 d/7; mkdir -p new; mv d/9 "new/$1"; rm -f e/gone; ln -sfn "$1" link; head -c 300000 /dev/urandom >big; echo nine >d/9`, name).OK()
		after := state(f)
		acked = kill("merge "+name, 300*time.Millisecond)
		switch got := state(w); {
		case got == after:
			reached["merged"]++
		case got == before && !acked:
			reached["not merged"]++
			w.Same(at+"the workspace after a death in a merge that was not begun", tree)
			w.Must("merge " + name)
		default:
			t.Fatalf("%sthe workspace after a death in a merge (acknowledged: %v) is\n%s", at, acked, got)
		}
		f = w.Fork(name)
		if got := state(f); got != after || state(w) != after {
			t.Fatalf("%safter the merge the fork is\n%s, not\n%s", at, got, after)
		}
		last := w.Active()
		if reply := w.Must("merge " + name); w.Active() != last {
			t.Errorf("%sa second merge brings more: %s", at, reply)
		}
		merged := w.Snapshot()
		w.Must("undo")
		w.Same(at+"the merge undone", tree)
		w.Must("redo")
		w.Same(at+"the merge done again", merged)

		acked = kill("discard "+name, 30*time.Millisecond)
		w.Same(at+"the workspace after a death while a fork was discarded", merged)
		if _, err := os.Lstat(w.Path(".tt/forks/" + name)); err != nil {
			reached["discarded"]++
			continue
		}
		if acked {
			t.Fatalf("%sthe fork was discarded, and is there", at)
		}
		reached["not discarded"]++
		if got := state(w.Fork(name)); got != after {
			t.Fatalf("%sthe fork after a death while it was discarded is\n%s, not\n%s", at, got, after)
		}
		rig.Eventually(t, "the fork to be idle", func() bool { _, err := w.Ctl("discard " + name); return err == nil })
	}
	t.Log(reached)
	w.Unmount()
	w.TTFS("fsck").OK()
}
