package overlay

import "sync/atomic"

// The kernel keeps inodes for as long as it has memory, which is a million on a big machine, and here is a node for each: that
// is too much for what may be looked at never again. So when there are many, who listens is told, has the kernel drop those that
// it does not use, and its forgets come. What is dropped is looked up again, as any name is some seconds after it was last.

// defaultNodeLimit is how many nodes are too many. A node takes some 330 bytes with its name and its places in the tables.
const defaultNodeLimit = 128 << 10

// Crowded is a Notifier that is told when there are too many nodes. It is called by whoever made the last of them, under
// its locks: it must not wait, nor call the engine.
type Crowded interface {
	Crowded()
}

// crowd says when the nodes are too many.
type crowd struct {
	limit  int
	at     atomic.Int64 // so many are too many; 0: any number is well
	listen Crowded
}

func (c *crowd) init(limit int, n Notifier) {
	c.limit = limit
	if limit == 0 {
		c.limit = defaultNodeLimit
	}
	if listen, ok := n.(Crowded); ok {
		c.listen = listen
		c.at.Store(int64(c.limit))
	}
}

// grown tells who listens that there are so many nodes, if those are too many.
func (c *crowd) grown(nodes int) {
	if at := c.at.Load(); at != 0 && int64(nodes) > at {
		c.listen.Crowded()
	}
}

// Spare are at most so many nodes that nothing but the kernel's cache holds, of the older half of all, in no order; none when
// there are few enough.
func (e *Engine) Spare(most int) []NodeID {
	e.nodes.mu.Lock()
	defer e.nodes.mu.Unlock()
	most = min(most, len(e.nodes.byID)-e.crowd.limit*3/4)
	if most <= 0 {
		return nil
	}
	spare := make([]NodeID, 0, most)
	young := e.nodes.next - min(e.nodes.next, NodeID(len(e.nodes.byID)/2))
	for id, n := range e.nodes.byID { // begins anywhere
		if id < young && n.pins == 0 && n.lookups > 0 && n != e.nodes.root {
			if spare = append(spare, id); len(spare) == most {
				break
			}
		}
	}
	return spare
}

// Spared says that the kernel has been asked to drop what it can: what is left may be in use, and is not asked for again
// before there are a quarter more. never: it cannot be asked.
func (e *Engine) Spared(never bool) {
	if never {
		e.crowd.at.Store(0)
		return
	}
	e.crowd.at.Store(int64(max(e.crowd.limit, e.Nodes()+e.crowd.limit/4)))
}

// Nodes is how many inodes the kernel has of the engine's tree.
func (e *Engine) Nodes() int {
	e.nodes.mu.Lock()
	defer e.nodes.mu.Unlock()
	return len(e.nodes.byID)
}
