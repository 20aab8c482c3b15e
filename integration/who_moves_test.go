package integration

import (
	"strings"
	"testing"
)

// TestWhoMayMoveWhom: an agent moves itself and those below it, and nobody else, whatever it says; the user moves everybody, and
// without a name the one that wrote last, and is told which. `ttfs log --all` and `ttfs agents` have all of them.
func TestWhoMayMoveWhom(t *testing.T) {
	t.Parallel()
	w := mounted(t)
	put(t, w, "f", "first\n")
	start := w.Snapshot()
	a := agent(t, w, "a")
	a.Say("echo 'task work of a' > .tt/ctl; echo a > of-a")
	b, kid := agent(t, w, "b"), agent(t, w, "kid parent=a")
	b.Say("echo 'task work of b' > .tt/ctl; echo b > of-b")
	kid.Say("echo 'task work of kid' > .tt/ctl; echo kid > of-kid")
	all := w.Snapshot()
	for _, refused := range []struct {
		who     string
		say     func(string) string
		command string
	}{
		{"b", b.Say, "undo agent=a"}, {"b", b.Say, "undo agent=kid"}, {"b", b.Say, "switch 0 agent=a force"}, {"b", b.Say, "undo agent=user"},
		{"kid", kid.Say, "undo agent=a"}, {"kid", kid.Say, "undo agent=b"}, {"a", a.Say, "redo agent=b"}, {"a", a.Say, "revert 2 agent=b"},
	} {
		if out := refused.say("/bin/echo '" + refused.command + "' > .tt/ctl; echo exit=$?; cat .tt/why"); !strings.Contains(out, "not permitted") || !strings.Contains(out, "Not yours") {
			t.Errorf("%s says %q: %s", refused.who, refused.command, out)
		}
	}
	w.Same("after what was refused", all)

	if out := a.Say("echo 'undo agent=kid' > .tt/ctl && ls of-kid 2>&1"); !strings.Contains(out, "No such file") {
		t.Errorf("a's undo of its sub-agent's: %s", out)
	}
	w.TTFS("redo", "--agent", "kid").OK()
	w.Same("after the user's redo", all)
	for _, last := range []struct{ say, want string }{{"b", "of b: work of b"}, {"kid", "of kid: automatic"}, {"a", "of a: work of a"}} {
		map[string]func(string) string{"a": a.Say, "b": b.Say, "kid": kid.Say}[last.say]("echo more >> of-" + last.say)
		now := w.Snapshot()
		r := w.TTFS("undo").OK()
		if !strings.Contains(r.Stderr+r.Stdout, last.want) {
			t.Errorf("the user's undo, %s wrote last: %s", last.say, r)
		}
		if d := w.Differs(now); !strings.Contains(d, "of-"+last.say) {
			t.Errorf("the user's undo, %s wrote last, changed %s", last.say, d)
		}
		w.TTFS("redo", "--agent", last.say).OK()
		w.Same("after redo of "+last.say, now)
	}
	w.TTFS("undo", "--agent", "b").OK()
	w.TTFS("undo", "--agent", "a").OK() // with what hangs under it
	w.Same("after the undo of all", start)
	graph := w.TTFS("log", "--all", "--graph").OK().Stdout
	agents := w.TTFS("agents").OK().Stdout
	for _, name := range []string{"a", "b", "kid"} {
		if !strings.Contains(graph, "work of "+name) || !strings.Contains(agents, "\n"+name+" ") && !strings.HasPrefix(agents, name+" ") {
			t.Errorf("%s is missing in\n%s\nor in\n%s", name, graph, agents)
		}
	}
}
