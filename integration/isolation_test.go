package integration

import (
	"errors"
	"strings"
	"testing"

	"github.com/ttfs/ttfs/integration/rig"
	"golang.org/x/sys/unix"
)

// TestIsolationNone: a sub-agent works in the same tree, in its own task under its parent's, guarded.
func TestIsolationNone(t *testing.T) {
	w := mounted(t)
	put(t, w, "f", "old\n")
	parent := agent(t, w, "parent")
	parent.Say("echo 'task whole' > .tt/ctl; cat f")
	r := w.TTFS("run", "--agent", "child", "--parent", "parent", "--isolation", "none", "--", "sh", "-c", "cat f >/dev/null; echo new > f; cat .tt/status").OK()
	if !strings.Contains(r.Stdout, "agent=child\n") {
		t.Error(r)
	}
	id := strings.TrimSpace(w.Read(".tt/agents/child/active"))
	if got, want := w.Read(".tt/tasks/"+id+"/files"), "modified f\n"; got != want {
		t.Errorf("the child's task: %q, want %q", got, want)
	}
	whole := strings.TrimSpace(w.Read(".tt/agents/parent/active"))
	if list := w.Read(".tt/agents/child/list.json"); !strings.Contains(list, `"under": `+whole) {
		t.Errorf("the child's task is not under task %s: %s", whole, list)
	}
	if got := w.Read(".tt/agents/child/isolation") + w.Read(".tt/agents/child/parent"); got != "none\nparent\n" {
		t.Errorf("its isolation and parent: %q", got)
	}
	if out := parent.Say("echo mine > f; echo exit=$?"); !strings.Contains(out, "Stale") || get(t, w, "f") != "new\n" {
		t.Errorf("the parent destroyed what the child wrote: %s", out)
	}
	if out := parent.Say("cat .tt/stale"); !strings.Contains(out, "f\tchild") {
		t.Errorf("the parent is not reminded: %s", out)
	}
	w.TTFS("undo", "--agent", "child").OK()
	if got := get(t, w, "f"); got != "old\n" {
		t.Errorf("after the undo: %q", got)
	}
}

// TestIsolationRO: whatever a read-only agent does with whatever program, it is EROFS and nothing changes; reading,
// locking and asking work; it gets out of it by nothing that it does itself.
func TestIsolationRO(t *testing.T) {
	w := mounted(t)
	put(t, w, "f", "content\n")
	w.Sh("mkdir d; ln -s f link; mkfifo fifo; truncate -s 300K big; git init -q repo; cd repo; echo x >x; git add x; git commit -qm x").OK()
	parent := agent(t, w, "parent")
	before := parent.Say("echo 'task whole' > .tt/ctl; echo by the parent > made; cat made")
	if !strings.Contains(before, "by the parent") {
		t.Fatal(before)
	}
	tree := w.Snapshot()
	run := func(script string) *rig.Result {
		t.Helper()
		return w.TTFS("run", "--agent", "reader", "--parent", "parent", "--isolation", "ro", "--", "sh", "-c", script)
	}
	for _, command := range []string{
		"echo mine > f", "echo mine >> f", "echo > new", "rm -f f", "rm -rf d", "mv f g", "cp f g", "ln f g", "ln -s f g", "mkdir e", "mkfifo p",
		"chmod 600 f", "touch f", "touch -a f", "truncate -s 1 big", "dd if=/dev/zero of=big bs=1 count=1 conv=notrunc", "sed -i s/content/mine/ f",
		`python3 -c 'import os; os.setxattr("f", "user.x", b"y")'`, `python3 -c 'open("f", "r+b")'`, "git -C repo commit --allow-empty -qm y",
		"setsid sh -c 'echo > new'", "echo > .tt/as/reader/new", "echo > .tt/as/fresh/new", "echo undo > .tt/ctl", "echo switch 0 > .tt/ctl", "echo restore 0 f > .tt/ctl",
		"env TTFS_AGENT=other sh -c 'echo > new'",
	} {
		if r := run(command + " || { cat .tt/why; exit 7; }").Exit(7); !strings.Contains(strings.ToLower(r.Stderr+r.Stdout), "read-only") {
			t.Errorf("%s: %s", command, r)
		}
	}
	for _, command := range []string{
		"echo 'agent reader isolation=none' > .tt/ctl", "echo 'agent below isolation=none' > .tt/ctl", "echo 'agent below parent=parent' > .tt/ctl",
		"echo end > .tt/ctl", "echo 'end reader' > .tt/ctl", "echo 'agent parent' > .tt/ctl",
	} {
		if r := run(command + " || { cat .tt/why; exit 7; }").Exit(7); !strings.Contains(strings.ToLower(r.Stdout), "not yours") {
			t.Errorf("%s: %s", command, r)
		}
	}
	w.Same("after a read-only agent", tree)
	r := run(`set -e
cat f d/../f made; git -C repo log --oneline >/dev/null; flock -s f true; ls -la; cat .tt/status .tt/agents/reader/isolation
echo 'agent below' > .tt/ctl; cat .tt/agents/below/isolation; ! echo x > new
grep -q 'isolation=ro' .tt/why`).OK()
	if !strings.Contains(r.Stdout, "agent=reader\n") || !strings.HasSuffix(r.Stdout, "\nro\nro\n") {
		t.Error(r)
	}
	if log := w.Read(".tt/log"); !strings.Contains(log, "agent=reader decision=isolated") {
		t.Errorf("the log has no line of it: %s", log)
	}
	w.Same("at the end", tree)
	// What it did before stays, who is above lifts it, and it is kept over a death of the daemon.
	w.TTFS("run", "--agent", "reader", "--isolation", "none", "--", "sh", "-c", "echo mine > new").OK()
	reader := w.Shell(w.Dir)
	reader.Say("echo 'agent reader isolation=ro' > .tt/ctl")
	if out := reader.Say("echo undo > .tt/ctl || cat .tt/why"); !strings.Contains(out, "isolation=ro") {
		t.Errorf("undo: %v", out)
	}
	w.Kill()
	w.Bury()
	w.Mount()
	if got := get(t, w, "new") + w.Read(".tt/agents/reader/isolation"); got != "mine\nro\n" {
		t.Errorf("after the remount: %q", got)
	}
	if out := reader.Say("cd / && cd " + w.Dir + " && echo x > new"); !strings.Contains(out, "Read-only") {
		t.Errorf("its process is somebody else after the remount: %s", out)
	}
	w.TTFS("run", "--agent", "reader", "--", "sh", "-c", "! echo x > new").OK()
	w.TTFS("switch", "0", "--agent", "reader").OK()
	w.Same("after the switch", tree)
}

// TestIsolationBad: what is not understood is refused, and nothing takes its place.
func TestIsolationBad(t *testing.T) {
	w := mounted(t)
	for command, want := range map[string]error{
		"agent x isolation=jail":             unix.EINVAL,
		"agent x parent=nobody":              unix.ENOENT,
		"agent x parent=nobody isolation=ro": unix.ENOENT,
	} {
		if _, err := w.Ctl(command); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", command, err, want)
		}
	}
	w.TTFS("run", "--isolation", "jail", "--", "sh", "-c", "echo > new").Exit(64)
	w.TTFS("run", "--isolation", "ro", "--parent", "nobody", "--", "sh", "-c", "echo > new").Exit(5)
	w.Sh("test ! -e new; test ! -e .tt/agents/x").OK()
}

// TestSharedAgentGone: what an agent in the same tree has made and changed stays, whether it is killed in the midst of it, ends, or its
// parent ends; and it is undone afterwards all the same.
func TestSharedAgentGone(t *testing.T) {
	w := mounted(t)
	w.Sh("mkdir d; echo old >f; echo old >d/gone").OK()
	start := w.Snapshot()
	parent := agent(t, w, "parent")
	parent.Say("cat f")
	r := w.TTFS("run", "--agent", "child", "--parent", "parent", "--isolation", "none", "--", "sh", "-c", "echo new >f; echo made >made; rm d/gone; mkdir n; echo below >n/f; exec 3>>f; kill -9 $$")
	if r.Code != 137 {
		t.Fatal(r)
	}
	after := w.Snapshot()
	if got := w.Read("f") + w.Read("made") + w.Read("n/f"); got != "new\nmade\nbelow\n" {
		t.Errorf("after the child was killed: %q", got)
	}
	if _, err := w.Ctl("end child"); err != nil {
		t.Logf("end child: %v", err) // it may have ended with its last process
	}
	w.Same("after the child's end", after)
	w.Must("end parent")
	w.Same("after the parent's end", after)
	w.TTFS("undo", "--agent", "child").OK()
	w.Same("after the undo", start)
}
