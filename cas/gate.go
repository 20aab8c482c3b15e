package cas

import "sync"

// gate counts the calls under way, so that Close can wait for them: pebble
// panics when it is used after its Close. The zero gate is open.
type gate struct {
	mu   sync.Mutex
	busy int           // +checklocks:mu
	shut bool          // +checklocks:mu
	idle chan struct{} // +checklocks:mu (made by close, closed by the last leave)
}

// enter says whether a call may begin; leave must follow then.
func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut {
		return false
	}
	g.busy++
	return true
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.busy--
	if g.busy == 0 && g.idle != nil {
		close(g.idle)
		g.idle = nil
	}
}

// closing says whether close has been called.
func (g *gate) closing() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.shut
}

// close lets no call in any more and waits for those under way. It returns
// false when the gate had been closed before.
func (g *gate) close() bool {
	g.mu.Lock()
	if g.shut {
		g.mu.Unlock()
		return false
	}
	g.shut = true
	var idle chan struct{}
	if g.busy > 0 {
		idle = make(chan struct{})
		g.idle = idle
	}
	g.mu.Unlock()
	if idle != nil {
		<-idle
	}
	return true
}
