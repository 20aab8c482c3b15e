package identity

import (
	"strconv"
	"time"

	"github.com/ttfs/ttfs/tasktree"
)

// process is what is remembered of one. All but key and first is guarded by Resolver.mu.
type process struct {
	key   Process
	first time.Time

	// linked: parent is decided. It never changes then, whatever becomes of the parent.
	linked bool
	parent *process

	// checked is when stat was read last, gone when it was found dead.
	checked, gone time.Time

	// image is the program it runs, images counts them.
	image  image
	images int
	// loaded: env, envUnread and program are those of the image. reading is closed when a read under way is done;
	// waited: a Resolve gave up on it already.
	loaded, waited bool
	reading        chan struct{}
	env            tasktree.Agent
	envUnread      bool
	program        string

	// agents are those that were registered for this very process, the last one counts.
	agents []tasktree.Agent

	entered   tasktree.TaskID
	enteredAs tasktree.Agent
}

// agentLocked is the agent registered for this very process, "" for none.
func (p *process) agentLocked() tasktree.Agent {
	if len(p.agents) == 0 {
		return ""
	}
	return p.agents[len(p.agents)-1]
}

// registeredLocked is the process itself or its nearest ancestor that was registered.
func (p *process) registeredLocked() *process {
	for ; p != nil; p = p.parent {
		if len(p.agents) > 0 {
			return p
		}
	}
	return nil
}

// envLocked is TTFS_AGENT of the process; where that could not be read, of the nearest ancestor where it could.
func (p *process) envLocked() tasktree.Agent {
	for ; p != nil; p = p.parent {
		if p.loaded && !p.envUnread {
			return p.env
		}
	}
	return ""
}

// programLocked is the agent program that the process belongs to. A program that starts itself again (or forked and did
// not exec yet) is one agent: the outermost of a run of the same name counts.
func (p *process) programLocked() *process {
	for ; p != nil; p = p.parent {
		if p.program == "" {
			continue
		}
		for p.parent != nil && p.parent.program == p.program {
			p = p.parent
		}
		return p
	}
	return nil
}

// programAgent is the agent of an agent program.
func (p *process) programAgent() tasktree.Agent {
	return tasktree.Agent(p.program + "-" + strconv.Itoa(p.key.PID))
}

// enteredLocked is the task remembered by EnteredTask for the agent, 0 for none.
func (p *process) enteredLocked(a tasktree.Agent) tasktree.TaskID {
	if p.enteredAs != a {
		return 0
	}
	return p.entered
}

// belowLocked says whether q is p or one of its ancestors.
func (p *process) belowLocked(q *process) bool {
	for ; p != nil; p = p.parent {
		if p == q {
			return true
		}
	}
	return false
}
