package bench

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ttfs/ttfs/integration/rig"
)

// agentRows are the figures of issue 4, in milliseconds, beside those of a repository for each chat (Agent Zero: a
// snapshot about 50, a safe restore about 100, a blocked one about 30).
var agentRows = []row{
	{"begin a task", "1"},
	{"undo of 100 small files", "30"},
	{"redo of them", ""},
	{"undo that is refused, 100 files", "3"},
	{"longest cycle of a busy agent", ""},
	{"a native program asks another 5 times, as to begin a task takes 5 requests", ""},
	{"a native program replaces 100 files on the bare disk", ""},
}

// BenchmarkAgents is one agent's moves beside none, one and sixteen that are at work.
func BenchmarkAgents(b *testing.B) {
	t := newTable("agents", "ms", agentRows)
	for _, busy := range []int{0, 1, 16} {
		t.columns = append(t.columns, map[int]string{0: "alone", 1: "1 busy agent"}[busy])
		if busy > 1 {
			t.columns[len(t.columns)-1] = fmt.Sprint(busy, " busy agents")
		}
		b.Run(fmt.Sprint(busy), func(b *testing.B) { besideBusy(b, t, t.columns[len(t.columns)-1], busy) })
	}
	failed, rounds := collide(b)
	t.note("Four agents that snapshot one shadow git repository at once: %d of %d snapshots failed (`index.lock`), in %d of 10 rounds; of ttfs's %d tasks none.",
		failed, 40, rounds, 40)
	t.publish(b, "ms, median (99th percentile); a busy agent begins tasks, writes ten files and takes them back without a pause.", millis)
}

func millis(_ *table, _ string, times []time.Duration) string {
	if len(times) < 100 {
		return short(float64(median(times)) / 1e6)
	}
	return short(float64(median(times))/1e6) + " (" + short(float64(quantile(times, 0.99))/1e6) + ")"
}

func besideBusy(b *testing.B, t *table, column string, busy int) {
	w := mountMust(b)
	var crowd []*callerProcess
	for i := range busy {
		p := startCaller(b, w, w.Dir, w.Path(".tt/ctl"))
		name := fmt.Sprint("busy", i)
		p.register(w, name)
		must(b, os.Mkdir(w.Path(name), 0o755))
		_, err := p.ask("busy", w.Path(name))
		must(b, err)
		crowd = append(crowd, p)
	}
	shared := w.Path("shared")
	must(b, os.Mkdir(shared, 0o755))
	a, other := newActor(b, w, "measured"), newActor(b, w, "other")
	bare := filepath.Join(filepath.Dir(w.Dir), "bare")
	must(b, os.Mkdir(bare, 0o755))
	var begin, undo, redo, refused, delay, replace []time.Duration
	for range sizes().cycles {
		for range 4 {
			begin = append(begin, a.command(b, "task round")...)
			rows, err := a.ask("delay", "")
			must(b, err)
			delay = append(delay, rows[0].Times...)
		}
		rows, err := a.ask("replace", bare)
		must(b, err)
		replace = append(replace, rows[0].Times...)
		a.write(b, shared)
		undo = append(undo, a.command(b, "undo")...)
		redo = append(redo, a.command(b, "redo")...)
		other.write(b, shared)
		refused = append(refused, a.refused(b, "undo")...)
		other.command(b, "undo")
		a.command(b, "undo")
	}
	t.add(agentRows[0].name, column, begin)
	t.add(agentRows[1].name, column, undo)
	t.add(agentRows[2].name, column, redo)
	t.add(agentRows[3].name, column, refused)
	t.add(agentRows[5].name, column, delay)
	t.add(agentRows[6].name, column, replace)
	for _, p := range crowd {
		rows, err := p.ask("idle", "")
		must(b, err)
		t.add(agentRows[4].name, column, rows[0].Times)
	}
	b.ReportMetric(0, "ns/op")
}

// actor is a caller that is an agent. The time of a command is taken by the agent itself, around the write into
// .tt/ctl and the reading of the reply.
type actor struct{ *callerProcess }

func newActor(b *testing.B, w *rig.Workspace, name string) actor {
	b.Helper()
	a := actor{startCaller(b, w, w.Dir, w.Path(".tt/ctl"))}
	a.register(w, name)
	return a
}

// command does what has to succeed.
func (a actor) command(b *testing.B, line string) []time.Duration {
	b.Helper()
	rows, err := a.ask("command", line)
	must(b, err)
	return rows[0].Times
}

// refused does what has to be refused as a conflict.
func (a actor) refused(b *testing.B, line string) []time.Duration {
	b.Helper()
	rows, err := a.ask("command", line)
	if err == nil || !strings.Contains(err.Error(), syscall.EBUSY.Error()) {
		b.Fatalf("%s: %v, want it refused as a conflict", line, err)
	}
	return rows[0].Times
}

// write changes a hundred files in a task of its own, having read them.
func (a actor) write(b *testing.B, dir string) {
	b.Helper()
	a.command(b, "task write")
	_, err := a.ask("write", dir)
	must(b, err)
}

// rewrite reads and then writes a hundred small files.
func (c *caller) rewrite(dir string) error {
	content := []byte(fmt.Sprintln(os.Getpid(), time.Now().UnixNano()))
	for i := range 100 {
		path := filepath.Join(dir, strconv.Itoa(i))
		if _, err := os.ReadFile(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// replace writes a hundred small files and renames each over what is there, as an undo does.
func (c *caller) replace(dir string) error {
	for i := range 100 {
		path := filepath.Join(dir, strconv.Itoa(i))
		if err := os.WriteFile(path+".new", page[:1000], 0o644); err != nil {
			return err
		}
		if err := os.Rename(path+".new", path); err != nil {
			return err
		}
	}
	return nil
}

// busyAgent works in the caller until it is told to stop.
type busyAgent struct {
	quit  chan struct{}
	wait  sync.WaitGroup
	times []time.Duration
	err   error
}

func startBusy(c *caller, dir string) *busyAgent {
	a := &busyAgent{quit: make(chan struct{})}
	a.wait.Go(func() {
		for a.err == nil {
			select {
			case <-a.quit:
				return
			default:
				timed(&a.times, func() { a.err = c.cycle(dir) })
			}
		}
	})
	return a
}

func (a *busyAgent) stop() ([]measured, error) {
	if a == nil {
		return nil, errors.New("it is not busy")
	}
	close(a.quit)
	a.wait.Wait()
	var longest time.Duration
	for _, t := range a.times {
		longest = max(longest, t)
	}
	return []measured{{"longest", []time.Duration{longest}}}, a.err
}

// cycle is one task, ten files, and its undo.
func (c *caller) cycle(dir string) error {
	if err := c.task("busy"); err != nil {
		return err
	}
	for i := range 10 {
		if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), page[:1000], 0o644); err != nil {
			return err
		}
	}
	_, err := c.command("undo")
	return err
}

// collide has four agents snapshot at once, ten times, into one shadow repository and then as tasks of ttfs. It fails
// the run when ttfs refuses one.
func collide(b *testing.B) (failed, rounds int) {
	b.Helper()
	w := mountMust(b)
	shadow := newShadow(b, w.Dir, kinds[0])
	shadow.snapshot(b)
	var agents []actor
	for i := range 4 {
		agents = append(agents, newActor(b, w, fmt.Sprint("chat", i)))
	}
	for round := range 10 {
		var lost [4]bool
		var all sync.WaitGroup
		for i, a := range agents {
			all.Go(func() {
				if _, err := a.ask("command", fmt.Sprint("task round ", round)); err != nil {
					b.Errorf("agent %d, round %d: %v", i, round, err)
				}
				if err := os.WriteFile(w.Path(fmt.Sprint("chat", i)), []byte(fmt.Sprint(round)), 0o644); err != nil {
					b.Error(err)
				}
				lost[i] = shadow.try() != nil
			})
		}
		all.Wait()
		before := failed
		for _, l := range lost {
			if l {
				failed++
			}
		}
		if failed > before {
			rounds++
		}
	}
	return failed, rounds
}
