package identity

import (
	"bytes"
	"encoding/hex"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/ttfs/ttfs/tasktree"
)

// boot says which boot of the kernel a fake proc directory is of.
func (f *fakeProc) boot(id string) {
	f.t.Helper()
	dir := filepath.Join(f.dir, "sys/kernel/random")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "boot_id"), []byte(id+"\n"), 0o644); err != nil {
		f.t.Fatal(err)
	}
}

func noParent(tasktree.Agent) tasktree.Agent { return "" }

// TestCarried: a later resolver knows the agents of the earlier one: the registered process, what it started, an orphan whose
// ancestors have all died, and in which task it was started.
func TestCarried(t *testing.T) {
	f := newFake(t)
	f.boot("first")
	f.put(entry{pid: 1, comm: "init", start: 1, session: 1})
	f.put(entry{pid: 100, ppid: 1, session: 100, start: 1000, comm: "sh"})
	f.put(entry{pid: 101, ppid: 100, session: 100, start: 2000, comm: "sub"})
	f.put(entry{pid: 102, ppid: 101, session: 102, start: 1_000_000, comm: "setsid"})
	f.put(entry{pid: 103, ppid: 102, session: 103, start: 1_000_000, comm: "orphan"})
	f.put(entry{pid: 200, ppid: 1, session: 200, start: 1500, comm: "stranger"})
	old := f.resolver(Options{})
	old.Activated("a", 7)
	for pid, a := range map[int]tasktree.Agent{100: "a", 101: "a.sub"} {
		if err := old.Register(pid, a, map[int]tasktree.Agent{101: "a"}[pid]); err != nil {
			t.Fatal(err)
		}
	}
	old.Activated("a.sub", 8)
	for pid, want := range map[uint32]tasktree.Agent{100: "a", 101: "a.sub", 103: "a.sub", 200: User} {
		if got := old.Resolve(pid).Agent; got != want {
			t.Fatalf("before: %d is %s, want %s", pid, got, want)
		}
	}
	for _, pid := range []int{101, 102} {
		f.kill(pid)
	}
	f.put(entry{pid: 103, ppid: 1, session: 103, start: 1_000_000, comm: "orphan"})
	records := old.Carry()
	if _, has := records[Process{PID: 200, Start: 1500}]; has {
		t.Error("the user's process is kept")
	}

	parents := func(a tasktree.Agent) tasktree.Agent { return map[tasktree.Agent]tasktree.Agent{"a.sub": "a"}[a] }
	next := f.resolver(Options{})
	living, useless := next.Restore(records, parents)
	if living != 2 || len(useless) != 0 {
		t.Errorf("%d live, %d records are useless", living, len(useless))
	}
	for pid, want := range map[uint32]Who{100: {Agent: "a", Root: true}, 103: {Agent: "a.sub"}, 200: {Agent: User, Root: true}} {
		if got := next.Resolve(pid); got.Agent != want.Agent || got.Root != want.Root {
			t.Errorf("after: %d is %+v, want %+v", pid, got, want)
		}
	}
	if got := next.EnteredTask(103, 99); got != 8 {
		t.Errorf("the orphan was started in task %d, want 8", got)
	}
	if !next.Descends("a.sub", "a") {
		t.Error("the sub-agent has no parent any more")
	}
	if err := next.Register(103, "new", ""); err != nil || next.Parent("new") != "a.sub" {
		t.Errorf("the orphan may become an unrelated agent: %v, its parent is %q", err, next.Parent("new"))
	}
	if again := next.Carry(); !bytes.Equal(again[Process{PID: 100, Start: 1000}], records[Process{PID: 100, Start: 1000}]) {
		t.Error("what was carried over is not carried on")
	}
}

// TestNotCarried: who is somebody else now, or of another boot, is nobody; a record that is not understood is none.
func TestNotCarried(t *testing.T) {
	f := newFake(t)
	f.boot("first")
	f.put(entry{pid: 100, ppid: 1, session: 100, start: 1000, comm: "sh"})
	old := f.resolver(Options{})
	if err := old.Register(100, "a", ""); err != nil {
		t.Fatal(err)
	}
	key, one, err := old.CarryOne(100)
	if err != nil {
		t.Fatal(err)
	}
	records := old.Carry()
	if !bytes.Equal(records[key], one) {
		t.Errorf("one process: %q, all: %q", one, records[key])
	}
	for name, change := range map[string]func() map[Process][]byte{
		"another boot": func() map[Process][]byte { f.boot("second"); return records },
		"pid reused": func() map[Process][]byte {
			f.boot("first")
			f.put(entry{pid: 100, ppid: 1, session: 100, start: 1001, comm: "sh"})
			return records
		},
		"cut short": func() map[Process][]byte {
			f.put(entry{pid: 100, ppid: 1, session: 100, start: 1000, comm: "sh"})
			short := maps.Clone(records)
			short[key] = one[:len(one)-1]
			return short
		},
		"unregistered": func() map[Process][]byte { old.Unregister(100, "a"); return old.Carry() },
	} {
		next := f.resolver(Options{})
		if name == "another boot" || name == "cut short" {
			if _, useless := next.Restore(change(), noParent); len(useless) != 1 {
				t.Errorf("%s: %d records are useless, want 1", name, len(useless))
			}
		} else {
			next.Restore(change(), noParent)
		}
		if got := next.Resolve(100).Agent; got != User {
			t.Errorf("%s: the process is %s", name, got)
		}
	}
}

// TestManyAgentsOfOneProcess: what is kept of a process that registers itself without end is bounded, and the first agent stays
// the one that it falls back to.
func TestManyAgentsOfOneProcess(t *testing.T) {
	f := newFake(t)
	f.boot("first")
	f.put(entry{pid: 100, ppid: 1, session: 100, start: 1000, comm: "sh"})
	r := f.resolver(Options{})
	const n = 10 * maxRegistered
	for i := range n {
		if err := r.Register(100, tasktree.Agent("a"+strconv.Itoa(i)), ""); err != nil {
			t.Fatal(err)
		}
	}
	if _, b, err := r.CarryOne(100); err != nil || len(b) > 16*maxRegistered {
		t.Errorf("%d bytes are kept, %v", len(b), err)
	}
	for i := n - 1; i > 0; i-- {
		if got := r.Resolve(100).Agent; i > n-maxRegistered && got != tasktree.Agent("a"+strconv.Itoa(i)) || got == User {
			t.Fatalf("it is %s, want a%d", got, i)
		}
		r.End(tasktree.Agent("a" + strconv.Itoa(i)))
	}
	if got := r.Resolve(100).Agent; got != "a0" {
		t.Errorf("in the end it is %s", got)
	}
}

// carriedExamples are a record of each version, from 1 on: every later program reads them. A new version comes with its own.
var carriedExamples = []string{"010666697273742064e8070101610000000000"}

// TestCarriedGolden: what earlier programs wrote is read, and what this one writes is the last of the examples.
func TestCarriedGolden(t *testing.T) {
	if len(carriedExamples) != carried {
		t.Fatalf("there are examples of %d versions, and it is version %d: add one", len(carriedExamples), carried)
	}
	f := newFake(t)
	f.boot("first")
	f.put(entry{pid: 100, ppid: 1, session: 100, start: 1000, comm: "sh"})
	f.put(entry{pid: 101, ppid: 100, session: 100, start: 2000, comm: "claude"})
	r := f.resolver(Options{})
	r.Activated("a", 7)
	if err := r.Register(101, "a", ""); err != nil {
		t.Fatal(err)
	}
	_, now, err := r.CarryOne(101)
	if err != nil {
		t.Fatal(err)
	}
	for i, text := range carriedExamples {
		if i == len(carriedExamples)-1 && hex.EncodeToString(now) != text {
			t.Errorf("the encoding has changed without a new version: %x", now)
		}
		b, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		next := f.resolver(Options{})
		_, useless := next.Restore(map[Process][]byte{{PID: 101, Start: 2000}: b}, noParent)
		if got := next.Resolve(101).Agent; got != "a" || len(useless) > 0 {
			t.Errorf("version %d: the process is %s, and useless are %v", i+1, got, useless)
		}
	}
}

// FuzzCarried: no bytes of a record make Restore fail, ring or be more than a record's.
func FuzzCarried(f *testing.F) {
	f.Add([]byte{carried, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Add([]byte("\x01\x05first\x64\xe8\x07\x01\x01a\x00\x00\x01\x07\x01a"))
	f.Fuzz(func(t *testing.T, b []byte) {
		fake := newFake(t)
		fake.boot("first")
		fake.put(entry{pid: 7, ppid: 1, session: 7, start: 3, comm: "sh"})
		r := fake.resolver(Options{})
		if c, err := parseCarried(b); err == nil {
			c.where = r.proc.place()
		}
		r.Restore(map[Process][]byte{{PID: 7, Start: 3}: b, {PID: 8, Start: 3}: b}, noParent)
		r.Resolve(7)
		r.Sweep()
	})
}
