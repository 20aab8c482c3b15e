package control

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/ttfs/ttfs/tasktree"
)

func TestExecute(t *testing.T) {
	const details = "changed 2\ndelete a\nmodify \"b\\nc\"\n"
	for _, c := range []struct {
		by         tasktree.Agent
		line, call string
		reply      string
	}{
		{"user", "task fix it", `task user "fix it"`, "ok 7\n"},
		{"new", "task", `task new ""`, "ok 7\n"},
		{"user", "undo", "undo user {By:user Force:false Skip:false}", "ok 2\nfrom 4\n" + details},
		{"user", "undo agent=kid force", "undo kid {By:user Force:true Skip:false}", "ok 0\nfrom 6\n" + details},
		{"main", "undo agent=kid", "undo kid {By:main Force:false Skip:false}", "ok 0\nfrom 6\n" + details},
		{"main", "redo agent=main skip", "redo main {By:main Force:false Skip:true}", "ok 5\nfrom 5\n" + details},
		{"user", "switch 1", "switch user 1 {By:user Force:false Skip:false}", "ok 1\nfrom 4\n" + details},
		{"user", "switch 0", "switch user 0 {By:user Force:false Skip:false}", "ok 0\nfrom 4\n" + details},
		{"user", "switch 6 agent=kid", "switch kid 6 {By:user Force:false Skip:false}", "ok 6\nfrom 6\n" + details},
		{"user", "revert 1", "revert user 1 {By:user Force:false Skip:false}", "ok 1\nfrom 4\n" + details},
		{"main", "restore 1 a b", `restore main 1 "a b" {By:main Force:false Skip:false}`, "ok 1\nfrom 5\n" + details},
		{"main", "restore force 1 a b", `restore main 1 "a b" {By:main Force:true Skip:false}`, "ok 1\nfrom 5\n" + details},
		{"main", "restore 0 a", `restore main 0 "a" {By:main Force:false Skip:false}`, "ok 0\nfrom 5\n" + details},
		{"main", "agent bob", "agent {Agent:main PID:99} {Name:bob Parent: Isolation: PID:99}", "ok bob\n"},
		{"main", "agent bob parent=kid pid=12 isolation=ro", "agent {Agent:main PID:99} {Name:bob Parent:kid Isolation:ro PID:12}", "ok bob\n"},
		{"main", "agent bob parent=user", "agent {Agent:main PID:99} {Name:bob Parent:user Isolation: PID:99}", "ok bob\n"},
		{"kid", "end", "end {Agent:kid PID:99} kid", "ok\n"},
		{"main", "end kid", "end {Agent:main PID:99} kid", "ok\n"},
		{"user", "end main", "end {Agent:user PID:99} main", "ok\n"},
		{"main", "fork f at=1", "fork main f true", "ok\n"},
		{"main", "merge f strict force=mine", "merge main f {Strict:true Prefer:mine DryRun:false}", "ok 7\nfrom 5\n" + details},
		{"main", "discard f force", "discard main f true", "ok\n"},
		{"user", "guard off", "guard user false", "ok\n"},
		{"user", "prune keep=1d max=64M", "prune user {Keep:24h0m0s MaxBytes:67108864 Dry:false}", "ok 2\nbefore 20\nafter 10\n1\n3\n"},
	} {
		f := newFake()
		cmd, err := Parse([]byte(c.line))
		if err != nil {
			t.Fatal(err)
		}
		reply, err := Execute(cmd, Caller{Agent: c.by, PID: 99}, whole{f})
		if err != nil || reply != c.reply || len(f.calls) != 1 || f.calls[0] != c.call {
			t.Errorf("%s: %q, %v, %q", c.line, reply, err, f.calls)
		}
	}
}

func TestExecuteRefused(t *testing.T) {
	for _, c := range []struct {
		by   tasktree.Agent
		line string
		want Kind
	}{
		{"user", "switch 99", NoTask}, {"user", "switch 4294967297", NoTask}, {"user", "revert 99", NoTask}, {"user", "restore 99 a", NoTask},
		{"user", "revert 0", NoTask},
		{"main", "switch 1", NotYours}, {"user", "switch 5", NotYours}, {"user", "switch 5 agent=kid", NotYours}, {"main", "revert 1", NotYours},
		{"kid", "undo agent=main", NotYours}, {"main", "undo agent=user", NotYours}, {"main", "redo agent=idle", NotYours},
		{"kid", "switch 5 agent=main", NotYours}, {"main", "end idle", NotYours}, {"kid", "end main", NotYours},
		{"user", "undo agent=nobody", NoAgent}, {"main", "undo agent=nobody", NoAgent}, {"user", "end nobody", NoAgent}, {"user", "agent x parent=nobody", NoAgent},
		{"user", "end", Invalid}, {"main", "end user", Invalid},
		{"idle", "undo", AtRoot},
		{"user", "fork f", Unsupported}, {"user", "merge f", Unsupported}, {"user", "discard f", Unsupported}, {"user", "revert 1", Unsupported},
		{"user", "restore 1 a", Unsupported}, {"user", "guard on", Unsupported}, {"user", "agent x isolation=ro", Unsupported}, {"user", "agent x isolation=fork", Unsupported},
	} {
		f := newFake()
		cmd, err := Parse([]byte(c.line))
		if err != nil {
			t.Fatal(err)
		}
		reply, err := Execute(cmd, Caller{Agent: c.by, PID: 99}, f)
		var e *Error
		if !errors.Is(err, c.want) || reply != "" || len(f.calls) != 0 || !errors.As(err, &e) || e.Op != string(cmd.Verb) {
			t.Errorf("%s by %s: %q, %v, %q", c.line, c.by, reply, err, f.calls)
		} else if e.Detail == "" && c.want != AtRoot {
			t.Errorf("%s by %s: no advice in %v", c.line, c.by, err)
		}
	}
	f := newFake()
	if _, err := Execute(Command{Verb: Agent, Name: "x", Isolation: "none"}, Caller{Agent: "user"}, f); !errors.Is(err, Invalid) {
		t.Errorf("a caller without a pid: %v", err)
	}
	if _, err := Execute(Command{Verb: Agent, Name: "x", Isolation: "fork"}, Caller{Agent: "user", PID: 1}, whole{f}); !errors.Is(err, Unsupported) {
		t.Errorf("an isolation that the backend lacks: %v", err)
	}
	if _, err := Execute(Command{Verb: "x"}, Caller{Agent: "user"}, f); !errors.Is(err, Invalid) {
		t.Errorf("no verb: %v", err)
	}
}

// What a backend returns keeps its kind, whatever it is wrapped in, for every command that changes something.
func TestExecuteFails(t *testing.T) {
	foreign := errors.New("disk on fire")
	for _, line := range []string{"task x", "undo", "redo", "switch 1", "revert 1", "restore 1 a", "agent x", "end kid", "fork f", "merge f", "discard f", "guard on"} {
		for _, e := range errnos {
			f := newFake()
			f.fail = fmt.Errorf("below: %w", &Error{Kind: e.kind})
			cmd, _ := Parse([]byte(line))
			_, err := Execute(cmd, Caller{Agent: "user", PID: 1}, whole{f})
			if !errors.Is(err, e.kind) || Errno(err) != e.errno {
				t.Errorf("%s: %v: errno %v", line, err, Errno(err))
			}
		}
		f := newFake()
		f.fail = foreign
		cmd, _ := Parse([]byte(line))
		if _, err := Execute(cmd, Caller{Agent: "user", PID: 1}, whole{f}); !errors.Is(err, foreign) || !errors.Is(err, Failed) || Errno(err) != syscall.EIO {
			t.Errorf("%s: %v", line, err)
		}
	}
}

func TestErrno(t *testing.T) {
	for err, want := range map[error]syscall.Errno{
		nil: 0, Invalid: syscall.EINVAL, Unsupported: syscall.EINVAL, NoTask: syscall.ENOENT, NoAgent: syscall.ENOENT, NoFile: syscall.ENOENT,
		AtRoot: syscall.ENOENT, Conflict: syscall.EBUSY, Protected: syscall.EPERM, NotYours: syscall.EPERM, Exists: syscall.EEXIST,
		ReadOnly: syscall.EROFS, NoSpace: syscall.ENOSPC, NoFiles: syscall.ENFILE, Stale: syscall.ESTALE, Partial: syscall.ENODATA, Failed: syscall.EIO,
		io.EOF: syscall.EIO,
	} {
		if got := Errno(err); got != want {
			t.Errorf("%v: %v, want %v", err, got, want)
		}
	}
	seen := map[Kind]bool{}
	for _, e := range errnos {
		if seen[e.kind] || e.errno == 0 {
			t.Errorf("%v is twice in the table, or has no errno", e.kind)
		}
		seen[e.kind] = true
	}
}

func TestSession(t *testing.T) {
	f := newFake()
	s := NewSession(f, Caller{Agent: "user", PID: 1})
	read := func() string {
		var all []byte
		p := make([]byte, 3)
		for n := s.Read(p); n > 0; n = s.Read(p) {
			all = append(all, p[:n]...)
		}
		return string(all)
	}
	if got := read(); got != "" {
		t.Errorf("a reply to nothing: %q", got)
	}
	if n, err := s.Write([]byte("task x\n")); n != 7 || err != nil {
		t.Fatal(n, err)
	}
	if got := read(); got != "ok 7\n" {
		t.Errorf("%q", got)
	}
	if got := read(); got != "" {
		t.Errorf("a reply twice: %q", got)
	}
	if n, err := s.Write([]byte("switch 99")); n != 0 || Errno(err) != syscall.ENOENT {
		t.Fatal(n, err)
	}
	if got := f.Why("user"); got != "switch 99: No such task: see .tt/tasks/list for those that exist" {
		t.Errorf("why: %q", got)
	}
	if got := read(); got != "error: "+f.Why("user")+"\n" {
		t.Errorf("%q", got)
	}
	if n, err := s.Write([]byte("nonsense")); n != 0 || Errno(err) != syscall.EINVAL {
		t.Fatal(n, err)
	}
	if _, err := s.Write([]byte("task y")); err != nil {
		t.Fatal(err)
	}
	if got := read(); got != "ok 8\n" {
		t.Errorf("a reply that was not read stays: %q", got)
	}
	f.active["user"] = 0
	if _, err := s.Write([]byte("undo")); err == nil || !strings.Contains(f.Why("user"), "Already at root task") {
		t.Errorf("%v, why %q", err, f.Why("user"))
	}
}

func TestRefusals(t *testing.T) {
	var r Refusals
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range maxRefusals {
				a := tasktree.Agent(fmt.Sprintf("a%d-%d", g, i))
				r.Refused(a, "no")
				r.Refused(a, string(a))
				if why := r.Why(a); why != "" && why != string(a) {
					t.Errorf("%s: %q", a, why)
				}
			}
		})
	}
	wg.Wait()
	if len(r.last) != maxRefusals || len(r.order) != maxRefusals {
		t.Errorf("%d, %d are kept", len(r.last), len(r.order))
	}
	if r.Why("nobody") != "" {
		t.Error("a refusal of nobody")
	}
}
