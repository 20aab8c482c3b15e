package identity

import (
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"os"

	"github.com/ttfs/ttfs/tasktree"
)

// init1 is what every fake machine has.
var init1 = entry{pid: 1, session: 1, start: 1, comm: "init"}

func TestRules(t *testing.T) {
	shell := entry{pid: 10, ppid: 1, session: 10, start: 100, comm: "bash"}
	for _, c := range []struct {
		name  string
		procs []entry
		ask   uint32
		want  tasktree.Agent
		root  bool
	}{
		{"user", []entry{shell}, 10, "user", true},
		{"environment", []entry{shell, {pid: 11, ppid: 10, start: 110, comm: "sh", env: []string{"A=b", "TTFS_AGENT=bot.1"}}}, 11, "bot.1", true},
		{"environment of the parent only", []entry{{pid: 10, ppid: 1, start: 100, comm: "sh", env: []string{"TTFS_AGENT=bot"}}, {pid: 11, ppid: 10, start: 110, comm: "sh"}}, 11, "user", true},
		{"environment that cannot be read: the parent's", []entry{{pid: 10, ppid: 1, start: 100, comm: "sh", env: []string{"TTFS_AGENT=bot"}}, {pid: 11, ppid: 10, start: 110, comm: "sudo", hidden: true}}, 11, "bot", true},
		{"environment with a bad name", []entry{{pid: 10, ppid: 1, start: 100, comm: "sh", env: []string{"TTFS_AGENT=../x"}}}, 10, "user", true},
		{"environment with a name that only begins so", []entry{{pid: 10, ppid: 1, start: 100, comm: "sh", env: []string{"TTFS_AGENT2=x", "XTTFS_AGENT=y"}}}, 10, "user", true},
		{"environment before program", []entry{{pid: 10, ppid: 1, start: 100, comm: "claude", env: []string{"TTFS_AGENT=bot"}}}, 10, "bot", true},
		{"environment user before program", []entry{{pid: 10, ppid: 1, start: 100, comm: "claude"}, {pid: 11, ppid: 10, start: 101, comm: "vi", env: []string{"TTFS_AGENT=user"}}}, 11, "user", true},
		{"program", []entry{{pid: 10, ppid: 1, start: 100, comm: "claude"}}, 10, "claude-10", true},
		{"program above", []entry{{pid: 10, ppid: 1, start: 100, comm: "codex"}, {pid: 11, ppid: 10, start: 101, comm: "sh"}, {pid: 12, ppid: 11, start: 102, comm: "sed"}}, 12, "codex-10", false},
		{"program by its first argument", []entry{{pid: 10, ppid: 1, start: 100, comm: "MainThread", args: []string{"/usr/bin/opencode", "run"}}}, 10, "opencode-10", true},
		{"program by its title", []entry{{pid: 10, ppid: 1, start: 100, comm: "MainThread", args: []string{"claude --resume x"}}}, 10, "claude-10", true},
		{"script of node", []entry{{pid: 10, ppid: 1, start: 100, comm: "node-MainThread", args: []string{"node", "--max-old-space-size=8192", "/usr/bin/gemini", "-p", "x"}}}, 10, "gemini-10", true},
		{"script of python", []entry{{pid: 10, ppid: 1, start: 100, comm: "python3", args: []string{"/venv/bin/python3.12", "/venv/bin/aider"}}}, 10, "aider-10", true},
		{"module of python", []entry{{pid: 10, ppid: 1, start: 100, comm: "python3", args: []string{"python3", "-m", "aider", "x.py"}}}, 10, "aider-10", true},
		{"script with an extension", []entry{{pid: 10, ppid: 1, start: 100, comm: "node", args: []string{"node", "/opt/amp.js"}}}, 10, "amp-10", true},
		{"argument of another program", []entry{{pid: 10, ppid: 1, start: 100, comm: "vi", args: []string{"vi", "claude"}}}, 10, "user", true},
		{"second argument of node", []entry{{pid: 10, ppid: 1, start: 100, comm: "node", args: []string{"node", "x.js", "claude"}}}, 10, "user", true},
		{"program that started itself again", []entry{{pid: 10, ppid: 1, start: 100, comm: "gemini"}, {pid: 11, ppid: 10, start: 101, comm: "gemini"}, {pid: 12, ppid: 11, start: 102, comm: "sh"}}, 12, "gemini-10", false},
		{"program below a shell below the same program", []entry{{pid: 10, ppid: 1, start: 100, comm: "claude"}, {pid: 11, ppid: 10, start: 101, comm: "sh"}, {pid: 12, ppid: 11, start: 102, comm: "claude"}}, 12, "claude-12", true},
		{"name with a parenthesis and a blank", []entry{{pid: 10, ppid: 1, start: 100, comm: "a) S 1 (b"}, {pid: 11, ppid: 10, start: 101, comm: "x", env: []string{"TTFS_AGENT=bot"}}}, 11, "bot", true},
		{"thread", []entry{{pid: 10, ppid: 1, start: 100, comm: "claude"}, {pid: 15, tgid: 10, ppid: 1, start: 105, comm: "worker"}}, 15, "claude-10", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake(t)
			f.put(init1)
			for _, e := range c.procs {
				f.put(e)
			}
			r := f.resolver(Options{})
			for range 2 { // the second answer is from the cache
				who := r.Resolve(c.ask)
				if who.Agent != c.want || who.Root != c.root || !who.Known {
					t.Fatalf("%+v, want agent %q, root %v", who, c.want, c.root)
				}
			}
		})
	}
}

func TestUnknown(t *testing.T) {
	f := newFake(t)
	f.write(7, "stat", "not a stat line")
	f.write(8, "stat", "8 (x) S 1")
	f.put(entry{pid: 9, ppid: 1, start: 5, comm: "x"})
	f.write(9, "status", "Name: x\n")
	r := f.resolver(Options{})
	for _, tid := range []uint32{0, 7, 8, 9, 12345, 1<<32 - 1} {
		if who := r.Resolve(tid); who.Known || who.Agent != User || who.Proc.PID != 0 {
			t.Errorf("%d: %+v", tid, who)
		}
	}
}

func TestKnownIsConfigurable(t *testing.T) {
	f := newFake(t)
	f.put(entry{pid: 10, start: 1, comm: "claude"})
	f.put(entry{pid: 11, start: 1, comm: "mybot"})
	r := f.resolver(Options{Known: []string{"mybot"}})
	if a := r.Resolve(10).Agent; a != User {
		t.Error(a)
	}
	if a := r.Resolve(11).Agent; a != "mybot-11" {
		t.Error(a)
	}
}

// A child between fork and exec looks like its parent, and opens files already.
func TestExec(t *testing.T) {
	f := newFake(t)
	f.put(init1)
	f.put(entry{pid: 10, ppid: 1, start: 100, comm: "bash", at: 1})
	f.put(entry{pid: 11, ppid: 10, start: 200, comm: "bash", at: 1})
	r := f.resolver(Options{})
	if a := r.Resolve(11).Agent; a != User {
		t.Fatal(a)
	}
	f.put(entry{pid: 11, ppid: 10, start: 200, comm: "bash", at: 2, env: []string{"TTFS_AGENT=bot"}}) // the same name
	f.pass(time.Millisecond)
	if a := r.Resolve(11).Agent; a != "bot" {
		t.Errorf("after exec: %s", a)
	}
	// An ancestor's exec is seen too: a new child asks, then, a while later, the same one.
	f.put(entry{pid: 12, ppid: 10, start: 300, comm: "x", at: 1})
	if a := r.Resolve(12).Agent; a != User {
		t.Fatal(a)
	}
	f.put(entry{pid: 10, ppid: 1, start: 100, comm: "claude", at: 9})
	f.pass(5 * time.Second)
	if a := r.Resolve(12).Agent; a != "claude-10" {
		t.Errorf("after the parent's exec: %s", a)
	}
}

// Where the addresses may not be seen, the name tells.
func TestExecUntold(t *testing.T) {
	f := newFake(t)
	f.put(entry{pid: 11, start: 200, comm: "bash"})
	r := f.resolver(Options{})
	if a := r.Resolve(11).Agent; a != User {
		t.Fatal(a)
	}
	f.put(entry{pid: 11, start: 200, comm: "codex"})
	f.pass(2 * time.Second)
	if a := r.Resolve(11).Agent; a != "codex-11" {
		t.Fatal(a)
	}
	f.put(entry{pid: 11, start: 200, comm: "cat"})
	f.pass(2 * time.Second)
	if a := r.Resolve(11).Agent; a != User {
		t.Fatal(a)
	}
}

// A program that only renames itself stays what it is.
func TestRenamed(t *testing.T) {
	f := newFake(t)
	f.put(entry{pid: 11, start: 200, comm: "claude", at: 4})
	r := f.resolver(Options{})
	r.Resolve(11)
	f.put(entry{pid: 11, start: 200, comm: "thinking", at: 4})
	f.pass(2 * time.Second)
	if a := r.Resolve(11).Agent; a != "claude-11" {
		t.Fatal(a)
	}
}

// The cache saves the look at /proc for a second, and no longer.
func TestReuseOfPID(t *testing.T) {
	f := newFake(t)
	f.put(init1)
	f.put(entry{pid: 50, ppid: 1, start: 100, comm: "claude"})
	r := f.resolver(Options{})
	for range 20 { // well known: looked at rarely
		r.Resolve(50)
		f.pass(time.Second)
	}
	if who := r.Resolve(50); who.Agent != "claude-50" {
		t.Fatal(who)
	}
	f.kill(50)
	f.put(entry{pid: 50, ppid: 1, start: 9000, comm: "vi"})
	if who := r.Resolve(50); who.Proc.Start != 100 {
		t.Fatalf("looked again within the second: %+v", who)
	}
	f.pass(freshFor)
	if who := r.Resolve(50); who.Agent != User || who.Proc.Start != 9000 {
		t.Fatalf("a reused pid: %+v", who)
	}
	f.kill(50)
	f.pass(freshFor)
	if who := r.Resolve(50); who.Known {
		t.Fatalf("a dead one: %+v", who)
	}
}

// A process that does not let its environ be read holds nobody up for longer than the bound; what comes late counts.
func TestEnvTimeout(t *testing.T) {
	f := newFake(t)
	f.put(init1)
	f.put(entry{pid: 10, ppid: 1, start: 100, comm: "x"})
	fifo := filepath.Join(f.dir, "10", "environ")
	if err := os.Remove(fifo); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	r := f.resolver(Options{EnvTimeout: time.Millisecond})
	for range 3 {
		if who := r.Resolve(10); who.Agent != User || !who.Known {
			t.Fatal(who)
		}
		f.pass(2 * time.Second)
	}
	deadline := time.Now().Add(60 * time.Second)
	for len(r.reads) != 1 { // init's read ends; that of the stuck image is one, however often was asked
		if time.Now().After(deadline) {
			t.Fatalf("%d reads are under way", len(r.reads))
		}
		time.Sleep(time.Millisecond)
	}
	w, err := os.OpenFile(fifo, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.WriteString("TTFS_AGENT=late\x00"); err != nil {
		t.Fatal(err)
	}
	w.Close()
	for r.Resolve(10).Agent != "late" {
		if time.Now().After(deadline) {
			t.Fatal("the late answer never came")
		}
		time.Sleep(time.Millisecond)
	}
}

func TestConcurrent(t *testing.T) {
	f := newFake(t)
	f.put(init1)
	f.put(entry{pid: 2, ppid: 1, start: 2, comm: "root"})
	for pid := 3; pid < 40; pid++ {
		f.put(entry{pid: pid, ppid: pid / 2, start: uint64(pid), comm: "p"})
	}
	r := f.resolver(Options{})
	if err := r.Register(2, "a", ""); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 60 {
				pid := uint32(4 + (i*7+g)%36)
				r.Resolve(pid)
				switch i % 15 {
				case 3:
					r.Sweep()
				case 5:
					r.Activated("a", tasktree.TaskID(i))
				case 7:
					r.EnteredTask(pid, 1)
				case 9:
					r.PIDs("a")
				case 11:
					_ = r.RegisterFor(pid, int(pid), "sub", "")
				case 13:
					r.End("sub")
				case 14:
					f.pass(time.Second)
				}
			}
		})
	}
	wg.Wait()
	r.End("sub")
	if who := r.Resolve(4); who.Agent != "a" || who.Root {
		t.Fatalf("%+v", who)
	}
}

func BenchmarkResolveCached(b *testing.B) {
	r := New(Options{})
	tid := uint32(os.Getpid())
	for b.Loop() {
		r.Resolve(tid)
	}
}

func BenchmarkResolveFirstSight(b *testing.B) {
	tid := uint32(os.Getpid())
	for b.Loop() {
		New(Options{}).Resolve(tid)
	}
}

// A look that fails for another reason than that the process is gone (no descriptors left) changes nothing.
func TestUnreadable(t *testing.T) {
	f := newFake(t)
	f.put(init1)
	f.put(entry{pid: 10, ppid: 1, start: 100, comm: "claude"})
	f.put(entry{pid: 11, ppid: 10, start: 110, comm: "sh"})
	r := f.resolver(Options{})
	want := r.Resolve(11)
	for _, pid := range []string{"10", "11"} { // a directory opens, and does not read
		stat := filepath.Join(f.dir, pid, "stat")
		if err := os.Remove(stat); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(stat, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	f.pass(5 * time.Second)
	r.Sweep()
	if who := r.Resolve(11); who != want || who.Agent != "claude-10" {
		t.Fatalf("%+v, want %+v", who, want)
	}
	if len(r.procs) != 3 {
		t.Errorf("%d processes are remembered", len(r.procs))
	}
}

// TestThreadsAreBounded: threads of one process that come and go without end, faster than any sweep, take no more room than so
// many, whether their verdicts are over or not; and each is told whose it is all the same.
func TestThreadsAreBounded(t *testing.T) {
	f := newFake(t)
	f.put(entry{pid: 1, comm: "init", start: 1, session: 1})
	f.put(entry{pid: 100, ppid: 1, session: 100, start: 1000, comm: "sh"})
	r := f.resolver(Options{})
	if err := r.Register(100, "a", ""); err != nil {
		t.Fatal(err)
	}
	p, err := r.process(100)
	if err != nil {
		t.Fatal(err)
	}
	const n = 5 * maxThreads
	for tid := uint32(1000); tid < 1000+n; tid++ {
		if got := r.verdict(tid, 2000, p, f.clock()).Agent; got != "a" {
			t.Fatalf("thread %d is %s", tid, got)
		}
		if tid > 1000+n/2 {
			f.pass(freshFor / 1000)
		}
		r.mu.RLock()
		held := len(r.tids)
		_, has := r.tids[tid]
		r.mu.RUnlock()
		if held > maxThreads || !has {
			t.Fatalf("%d threads are held, the last one: %v", held, has)
		}
	}
}
