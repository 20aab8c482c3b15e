package fs

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/ttfs/ttfs/fs/identity"
	"github.com/ttfs/ttfs/fs/overlay"
	"github.com/ttfs/ttfs/guard"
	"github.com/ttfs/ttfs/tasktree"
)

// carryEvery is how often what became known of processes by itself (descent, mostly) is written down. Registrations are
// written before they are answered.
const carryEvery = 20 * time.Second

// carrier keeps who is which agent over a restart of the daemon: the processes go on meanwhile.
//
// Lock order: carrier.mu before the resolver's and the engine's.
type carrier struct {
	ids *identity.Resolver
	e   *overlay.Engine
	log *slog.Logger

	mu   sync.Mutex
	kept map[identity.Process]string // +checklocks:mu as the journal has it
}

func carryKey(p identity.Process) guard.Process { return guard.Process{PID: p.PID, Start: p.Start} }

// restore takes in what the daemon before kept. What cannot be read is passed over: its processes are looked at as new ones.
func (c *carrier) restore() error {
	stored, err := c.e.Processes()
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept = make(map[identity.Process]string, len(stored))
	records := make(map[identity.Process][]byte, len(stored))
	for p, v := range stored {
		k := identity.Process{PID: p.PID, Start: p.Start}
		c.kept[k], records[k] = string(v), v
	}
	living, useless := c.ids.Restore(records, func(a tasktree.Agent) tasktree.Agent { return c.e.ParentOf(a) })
	if living > 0 {
		c.log.Info("processes that were registered before are the agents that they were", "processes", living)
	}
	var gone []guard.Process
	for _, k := range useless {
		delete(c.kept, k)
		gone = append(gone, carryKey(k))
	}
	return c.e.SaveProcesses(nil, gone)
}

// save writes what has changed since it was last written.
func (c *carrier) save() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.ids.Carry()
	put := map[guard.Process][]byte{}
	var drop []guard.Process
	for k, v := range now {
		if c.kept[k] != string(v) {
			put[carryKey(k)] = v
		}
	}
	for k := range c.kept {
		if now[k] == nil {
			drop = append(drop, carryKey(k))
		}
	}
	if err := c.e.SaveProcesses(put, drop); err != nil {
		return err
	}
	clear(c.kept)
	for k, v := range now {
		c.kept[k] = string(v)
	}
	return nil
}

// saveOne writes the record of a process that has just been registered.
func (c *carrier) saveOne(pid int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, v, err := c.ids.CarryOne(pid)
	if err != nil {
		return nil // it has ended
	}
	if err := c.e.SaveProcesses(map[guard.Process][]byte{carryKey(k): v}, nil); err != nil {
		return err
	}
	c.kept[k] = string(v)
	return nil
}

// trySave is save where nobody can be told that it failed: what is kept is then older.
func (c *carrier) trySave() {
	if err := c.save(); err != nil {
		c.log.Warn("who is which agent is not kept as it is now", "err", err)
	}
}

func (c *carrier) run(ctx context.Context) {
	t := time.NewTicker(carryEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			c.trySave()
			return
		case <-t.C:
			c.trySave()
		}
	}
}
