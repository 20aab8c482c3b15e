package identity

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// fakeProc is a proc directory of files, and the clocks that go with it.
type fakeProc struct {
	t   testing.TB
	dir string

	mu   sync.Mutex
	now  time.Time
	tick uint64
}

// entry is one process, or, with tgid, one thread of it.
type entry struct {
	pid, ppid, session, tgid int
	start                    uint64
	comm                     string
	env                      []string
	args                     []string
	// at moves the addresses of arguments and environment, as an exec does.
	at uint64
	// state is S when it is left out.
	state string
	// hidden: environ and cmdline cannot be read.
	hidden bool
}

func newFake(t testing.TB) *fakeProc {
	return &fakeProc{t: t, dir: t.TempDir(), now: time.Unix(1_700_000_000, 0), tick: 1_000_000}
}

func (f *fakeProc) clock() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

func (f *fakeProc) ticks() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.tick
}

// pass lets time go by on both clocks.
func (f *fakeProc) pass(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = f.now.Add(d)
	f.tick += uint64(d / (10 * time.Millisecond))
}

func (f *fakeProc) resolver(o Options) *Resolver {
	o.ProcDir, o.Now, o.Ticks = f.dir, f.clock, f.ticks
	if o.EnvTimeout == 0 {
		o.EnvTimeout = 30 * time.Second // the bound is tested by itself; a loaded machine must not reach it elsewhere
	}
	return New(o)
}

func (f *fakeProc) write(pid int, name, content string) {
	f.t.Helper()
	dir := filepath.Join(f.dir, strconv.Itoa(pid))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		f.t.Fatal(err)
	}
	// As in /proc, a reader sees the old file or the new one, never a part.
	tmp := filepath.Join(dir, "."+name)
	if err := os.WriteFile(tmp, []byte(content), 0o644); err != nil {
		f.t.Fatal(err)
	}
	if err := os.Rename(tmp, filepath.Join(dir, name)); err != nil {
		f.t.Fatal(err)
	}
}

// put makes a process, or changes it.
func (f *fakeProc) put(e entry) {
	f.t.Helper()
	if e.state == "" {
		e.state = "S"
	}
	if e.tgid == 0 {
		e.tgid = e.pid
	}
	fields := make([]string, 50) // fields 3 to 52
	for i := range fields {
		fields[i] = "0"
	}
	set := func(field int, v any) { fields[field-3] = fmt.Sprint(v) }
	set(3, e.state)
	set(4, e.ppid)
	set(6, e.session)
	set(20, 1)
	set(22, e.start)
	set(48, e.at)
	set(50, e.at)
	f.write(e.pid, "stat", fmt.Sprintf("%d (%s) %s\n", e.pid, e.comm, strings.Join(fields, " ")))
	f.write(e.pid, "status", fmt.Sprintf("Name:\t%s\nUmask:\t0022\nTgid:\t%d\nPid:\t%d\n", e.comm, e.tgid, e.pid))
	f.write(e.pid, "comm", e.comm+"\n")
	if e.hidden {
		_ = os.Remove(filepath.Join(f.dir, strconv.Itoa(e.pid), "environ"))
		_ = os.Remove(filepath.Join(f.dir, strconv.Itoa(e.pid), "cmdline"))
		return
	}
	args := e.args
	if args == nil {
		args = []string{e.comm}
	}
	f.write(e.pid, "environ", strings.Join(append(e.env, ""), "\x00"))
	f.write(e.pid, "cmdline", strings.Join(append(args, ""), "\x00"))
}

// kill makes a process go away.
func (f *fakeProc) kill(pid int) {
	f.t.Helper()
	if err := os.RemoveAll(filepath.Join(f.dir, strconv.Itoa(pid))); err != nil {
		f.t.Fatal(err)
	}
}
