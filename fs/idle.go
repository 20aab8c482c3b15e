package fs

import "github.com/ttfs/ttfs/tasktree"

// idler is where agents are found that have had no process for a while.
type idler interface {
	EndIdle(keep func(tasktree.Agent) bool) []tasktree.Agent
}

// endIdle ends the agents whose last process has ended: what they know goes, and the windows that they held open; their
// tasks stay. Each is one line of the event log, which end writes. An agent that works through a view has no process of its
// own: only the command `end` ends it.
func endIdle(ids idler, viewed func(tasktree.Agent) bool, end func(tasktree.Agent)) {
	for _, a := range ids.EndIdle(viewed) {
		end(a)
	}
}
