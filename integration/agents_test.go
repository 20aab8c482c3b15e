package integration

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/ttfs/ttfs/integration/rig"
)

// TestSubAgents: three agents deep, over the built binary: the parent is reminded of what all below it changed; its undo
// takes their tasks along, redo brings them back, also after a remount; a late child of the lowest is fenced.
func TestSubAgents(t *testing.T) {
	w := mounted(t)
	put(t, w, "f", "first\n")
	put(t, w, "g", "first\n")
	before := w.Snapshot()
	p := agent(t, w, "p")
	p.Say("echo 'task whole' > .tt/ctl; cat f g; echo p > by-p")
	c := agent(t, w, "c parent=p")
	c.Say("echo 'task half' > .tt/ctl; cat f; echo c >> f; mkdir dir")
	g := agent(t, w, "g parent=c")
	g.Say("echo 'task quarter' > .tt/ctl; cat f g; echo g >> f; echo g > dir/by-g; echo g >> g")
	// The late child of g waits outside of the workspace until it is told to write.
	wait := t.TempDir()
	g.Say("mkfifo " + wait + "/go " + wait + "/done; (read x < " + wait + "/go; echo late > late; echo exit=$? > " + wait + "/done) 2>/dev/null &")
	if got := p.Say("cat .tt/stale"); got != "f\tc,g\ng\tg" {
		t.Errorf("the parent's reminder: %q", got)
	}
	if got := c.Say("cat .tt/stale"); got != "f\tg" {
		t.Errorf("the sub-agent's reminder: %q", got)
	}
	all := w.Snapshot()
	if got := p.Say("echo undo > .tt/ctl && echo ok"); got != "ok" {
		t.Fatalf("undo of the parent's: %s", got)
	}
	w.Same("after the undo of the parent's", before)
	if got := p.Say("echo > " + wait + "/go; read x < " + wait + "/done; echo $x; ls late 2>&1"); !strings.Contains(got, "exit=") || strings.Contains(got, "exit=0") {
		t.Errorf("the late child of the lowest wrote: %s", got)
	}
	w.Same("after the late child", before)
	log := w.Read(".tt/log")
	for _, want := range []string{"along agent=c from=", "along agent=g from="} {
		if !strings.Contains(log, want) {
			t.Errorf("the log has no %q", want)
		}
	}
	for _, sh := range []*rig.Shell{p, c, g} {
		sh.Say("cd /")
	}
	w.Unmount()
	w.Mount()
	for name, want := range map[string]string{"c": "p\n", "g": "c\n"} {
		if got := w.Read(".tt/agents/" + name + "/parent"); got != want {
			t.Errorf("after a remount the parent of %s is %q", name, got)
		}
	}
	w.TTFS("redo", "--agent", "p").OK()
	w.Same("after a remount and redo", all)
	w.TTFS("undo", "--agent", "g").OK()
	if got := get(t, w, "f") + get(t, w, "g"); got != "first\nc\nfirst\n" {
		t.Errorf("after the undo of the lowest's own: %q", got)
	}
	detached(t, w)
	w.TTFS("undo", "--agent", "p").OK()
	w.Same("after the undo without the mount", before)
}

// TestForceAndClasses: what agents and the user are refused, and what skip and force do about it, through the command line.
func TestForceAndClasses(t *testing.T) {
	w := rig.New(t)
	put(t, w, ".ttfs.toml", "[classes]\nsystem = [\"deploy.toml\", \"!ours/config.json\"]\nplatform = [\"!plugins/ours/\"]\nuser = [\"kept.log\"]\n")
	w.Sh("mkdir ours plugins plugins/ours; echo 1 > plain; echo 1 > .env; echo 1 > deploy.toml; echo 1 > ours/config.json; echo 1 > plugins/ours/p; echo 1 > plugins/p; echo 1 > x.log; echo 1 > kept.log").OK()
	w.Mount()
	before := w.Snapshot()
	a, b := agent(t, w, "a"), agent(t, w, "b")
	ttfs := os.Getenv(rig.EnvBinary)
	a.Say("echo 'task one' > .tt/ctl; for f in plain .env deploy.toml ours/config.json plugins/ours/p plugins/p x.log; do echo a > $f; done")
	after := w.Snapshot()
	if out := a.Say(ttfs + " undo; echo exit=$?"); !strings.Contains(out, "exit=3") || !strings.Contains(out, ".env") {
		t.Errorf("an agent's undo of protected paths: %s", out)
	}
	w.Same("after the refusal", after)
	report := a.Say("cat .tt/conflicts")
	if n := strings.Count(report, "\n") + 1; n != 3 {
		t.Errorf("%d paths are protected:\n%s", n, report)
	}
	for _, want := range []string{".env\ta\t", "deploy.toml\ta\t", "plugins/p\ta\t", "\tSYSTEM\t", "\tPLATFORM\t", "its content since then"} {
		if !strings.Contains(report, want) {
			t.Errorf(".tt/conflicts has no %q:\n%s", want, report)
		}
	}
	if json := a.Say("cat .tt/conflicts.json"); !strings.Contains(json, `"class": "SYSTEM"`) || !strings.Contains(json, `"lost": "`) {
		t.Errorf(".tt/conflicts.json: %s", json)
	}
	if out := a.Say("/bin/echo undo > .tt/ctl"); !strings.Contains(out, "not permitted") {
		t.Errorf("undo by .tt/ctl: %s", out)
	}
	if out := a.Say(ttfs + " undo --force >/dev/null; echo exit=$?"); !strings.Contains(out, "exit=0") {
		t.Errorf("force: %s", out)
	}
	w.Same("after force", before)
	w.TTFS("redo", "--agent", "a").OK() // the user is not asked
	w.Same("after the user's redo", after)
	// b works on top of a: that is a conflict whatever the class, but TEMP.
	b.Say("echo 'task two' > .tt/ctl; cat plain x.log; echo b >> plain; echo b >> x.log")
	both := w.Snapshot()
	if r := w.TTFS("undo", "--agent", "a").Exit(3); !strings.Contains(r.Stderr, "plain") || strings.Contains(r.Stderr, "x.log") {
		t.Errorf("the user's undo over b's work: %s", r.Stderr)
	}
	if report := w.Read(".tt/conflicts"); !strings.Contains(report, "plain\tb\t") || strings.Contains(report, ".env") {
		t.Errorf("the user's report: %s", report)
	}
	w.TTFS("undo", "--agent", "a", "--force").OK()
	if got := get(t, w, "plain") + get(t, w, ".env"); got != "1\n1\n" {
		t.Errorf("after the user's force: %q", got)
	}
	if log := w.Read(".tt/log"); strings.Count(log, " force ") != 2 || !strings.Contains(log, "by=user") {
		t.Errorf("the log: %s", log)
	}
	w.TTFS("undo", "--agent", "a").OK()
	w.Same("after the undo of the force", both)
	if out := a.Say(ttfs + " undo --skip >/dev/null; echo exit=$?"); !strings.Contains(out, "exit=0") {
		t.Errorf("skip: %s", out)
	}
	for name, want := range map[string]string{"plain": "a\nb\n", ".env": "a\n", "plugins/p": "a\n", "plugins/ours/p": "1\n", "ours/config.json": "1\n"} {
		if got := get(t, w, name); got != want {
			t.Errorf("after skip, %s is %q, want %q", name, got, want)
		}
	}
	// What the user edits is somebody else's work as well.
	a.Say("echo 'task three' > .tt/ctl; echo a > note")
	put(t, w, "note", "the user's\n")
	if out := a.Say(ttfs + " undo; echo exit=$?"); !strings.Contains(out, "exit=3") || !strings.Contains(out, "user, task") {
		t.Errorf("undo over the user's edit: %s", out)
	}
}

// TestEightAgents: eight agents at once, fifty cycles each of task, write, undo: no error, and every file is back.
func TestEightAgents(t *testing.T) {
	w := mounted(t)
	w.Sh("mkdir shared; for i in 0 1 2 3 4 5 6 7; do mkdir $i; echo first > $i/f; echo first > shared/$i; done; touch -d @1000000000 shared").OK()
	before := w.Snapshot()
	var all sync.WaitGroup
	for i := range 8 {
		sh := agent(t, w, fmt.Sprint("busy", i))
		all.Go(func() {
			script := fmt.Sprintf("n=0; while [ $n -lt 50 ]; do echo \"task cycle $n\" > .tt/ctl && echo $n > %[1]d/f && echo $n >> shared/%[1]d && "+
				"mkdir %[1]d/d && echo $n > %[1]d/d/x && mv shared/%[1]d shared/of-%[1]d && rm %[1]d/f && echo undo > .tt/ctl || break; n=$((n+1)); done; echo cycles=$n", i)
			if out := sh.Say(script); out != "cycles=50" {
				t.Errorf("agent %d: %s", i, out)
			}
		})
	}
	all.Wait()
	w.Sh("touch -d @1000000000 shared").OK() // its time is everybody's
	w.Same("after four hundred cycles", before)
}

// TestWhoActs: what a process does is its agent's however far it is from it: detached, forked twice, in a pid namespace of
// its own with nothing but the environment to tell.
func TestWhoActs(t *testing.T) {
	w := mounted(t)
	boss := agent(t, w, "boss")
	for name, script := range map[string]string{
		"setsid": "setsid sh -c 'echo 1 > setsid'",
		"nohup":  "nohup sh -c 'echo 1 > nohup' >/dev/null 2>&1 &",
		"env":    "TTFS_AGENT=boxed sh -c 'echo 1 > env'", // who was registered is no other's by its environment
	} {
		boss.Say(script)
		recorded(t, w, "boss", name)
	}
	w.TTFS("run", "--agent", "runner", "--", "sh", "-c", "( ( (echo 1 > forked) & ) ); setsid sh -c '( (echo 1 > gone) & )'; setsid sh -c '(setsid sh -c \"echo 1 > both\" &)'").OK()
	recorded(t, w, "runner", "forked")
	recorded(t, w, "runner", "gone")
	recorded(t, w, "runner", "both")
	w.Sh("TTFS_AGENT=boxed unshare --fork --pid --mount-proc sh -c 'setsid sh -c \"echo 1 > boxed\"'").OK()
	if got := w.Read(".tt/agents/boxed/writes"); got != "created boxed\n" {
		t.Errorf("what a container did: %q", got)
	}
}

// recorded waits until a file that an agent makes is told to be its.
func recorded(t *testing.T, w *rig.Workspace, agent, name string) {
	t.Helper()
	rig.Eventually(t, name+" is recorded as "+agent+"'s", func() bool {
		return strings.Contains(w.Read(".tt/agents/"+agent+"/writes"), "created "+name+"\n")
	})
}
