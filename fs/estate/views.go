package estate

import "sync/atomic"

// View is a number that the kernel has in node ids, and the tree and the agent that it stands for.
type View struct {
	Number uint64
	// Space is the fork's whole name, "" for the workspace. Own: it is the space's own tree.
	Space string
	Own   bool
	Agent string
}

type viewRecord struct {
	number atomic.Uint64
	own    uint64
	agent  [68]byte
	space  [104]byte
}

// PutView keeps a view. False: there is no room, or the name is too long.
func (e *Estate) PutView(v *View) bool {
	if len(v.Agent) > len(viewRecord{}.agent)-2 || len(v.Space) > len(viewRecord{}.space)-2 {
		return false
	}
	i := e.views.take()
	if i == 0 {
		return false
	}
	r := (*viewRecord)(e.views.at(i))
	r.own = 0
	if v.Own {
		r.own = 1
	}
	putString(r.agent[:], v.Agent)
	putString(r.space[:], v.Space)
	r.number.Store(v.Number)
	return true
}

// Views gives every view that was kept.
func (e *Estate) Views(f func(View)) {
	e.views.each(func(i uint32) {
		r := (*viewRecord)(e.views.at(i))
		f(View{Number: r.number.Load(), Own: r.own != 0, Agent: getString(r.agent[:]), Space: getString(r.space[:])})
	})
}
