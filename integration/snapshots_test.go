package integration

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

// TestSnapshotsNeverCollide: four agents that begin tasks at once, ten times, where as many snapshots into one shadow git
// repository mostly fail at index.lock. Each task holds its agent's write and nobody else's.
func TestSnapshotsNeverCollide(t *testing.T) {
	w := mounted(t)
	const agents, rounds = 4, 10
	all := make([]*callingAgent, agents)
	for i := range all {
		name := fmt.Sprint("chat", i)
		all[i] = &callingAgent{name: name, say: agent(t, w, name).Say}
	}
	for round := range rounds {
		var wait sync.WaitGroup
		for _, a := range all {
			wait.Go(func() { a.round(round) })
		}
		wait.Wait()
	}
	for _, a := range all {
		for _, failed := range a.failed {
			t.Errorf("%s: %s", a.name, failed)
		}
		list := w.Read(".tt/agents/" + a.name + "/list")
		if n := strings.Count(list, "round "); n != rounds {
			t.Errorf("%s has %d tasks of %d:\n%s", a.name, n, rounds, list)
		}
		active := strings.TrimSpace(w.Read(".tt/agents/" + a.name + "/active"))
		if files := strings.TrimSpace(w.Read(".tt/tasks/" + active + "/files")); files != "modified "+a.name {
			t.Errorf("the last task of %s changed %q", a.name, files)
		}
		if got := a.say("echo undo >.tt/ctl; cat " + a.name); got != fmt.Sprint(rounds-2) {
			t.Errorf("undo of %s left %q", a.name, got)
		}
	}
}

// callingAgent is an agent's shell and what went wrong in it.
type callingAgent struct {
	name   string
	say    func(line string) string
	failed []string
}

func (a *callingAgent) round(n int) {
	if out := a.say(fmt.Sprintf("echo 'task round %d' >.tt/ctl && echo %d >%s && echo did", n, n, a.name)); out != "did" {
		a.failed = append(a.failed, out)
	}
}
