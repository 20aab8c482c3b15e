package fs

import (
	"context"
	"fmt"
	"time"

	"github.com/ttfs/ttfs/fs/control"
	"github.com/ttfs/ttfs/fs/overlay"
	"github.com/ttfs/ttfs/tasktree"
	"golang.org/x/sys/unix"
)

// What is kept of history is the user's to say, in `[limits]` of the configuration: nothing is forgotten for its age or its
// size unless it is asked for. When the disk is nearly full (below twice the floor), what nobody needs any more is given back, and
// no more than that: a change that cannot be recorded is refused, and `.tt/log` says what to do. To lose the way back unseen is
// worse than to be told that the disk is full. `full = "forget"` turns that around: then the oldest history goes, but never
// that of the last day.

const (
	limitsEvery = time.Minute    // how often it is looked at the disk
	pruneEvery  = time.Hour      // how often it is pruned by age and size
	spareAge    = 24 * time.Hour // what is younger is not forgotten to make room
)

// limits are what the configuration says of how much is kept.
type limits struct {
	keep     time.Duration
	maxBytes int64
	forget   bool  // when the disk is nearly full
	floor    int64 // free space that the store leaves
}

func (c *config) limits(tt int) limits {
	floor := c.Limits.Floor.n
	if floor == 0 {
		floor = floorFor(tt)
	}
	if floor == 0 {
		floor = defaultFloor
	}
	return limits{keep: c.Limits.Keep.d, maxBytes: c.Limits.MaxSize.n, forget: c.Limits.Full.s == "forget", floor: floor}
}

// options are those of a prune as the limits say, or as was asked for.
func (l limits) options(r control.PruneRequest) overlay.PruneOptions {
	if r.Keep == 0 && r.MaxBytes == 0 {
		r.Keep, r.MaxBytes = l.keep, l.maxBytes
	}
	return overlay.PruneOptions{Keep: r.Keep, MaxBytes: r.MaxBytes, DryRun: r.Dry}
}

// Prune gives up old history; only the user may.
func (b *backend) Prune(by control.Caller, r control.PruneRequest) (control.PruneReply, error) {
	if by.Agent != tasktree.User {
		return control.PruneReply{}, &control.Error{Op: "prune", Kind: control.NotYours, Detail: "only the user gives up history; ask them"}
	}
	res, err := b.Engine.Prune(b.limits.options(r))
	return control.PruneReply{Tasks: res.Tasks, Before: res.Before, After: res.After}, controlError("prune", err)
}

// keepLimits prunes as the limits say, for as long as the mount serves.
func (s *Server) keepLimits(ctx context.Context, l limits) {
	tick := time.NewTicker(limitsEvery)
	defer tick.Stop()
	k := &keeper{engine: s.engine, limits: l, free: func() (int64, error) { return freeOn(s.store.tt, s.store.dir) }, told: s.store.log.line}
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			if err := k.look(now); err != nil && ctx.Err() == nil {
				s.o.Logger.Warn("history is pruned later", "err", err)
			}
		}
	}
}

// pruner is the engine.
type pruner interface {
	Prune(o overlay.PruneOptions) (overlay.PruneResult, error)
}

// keeper decides when to prune.
type keeper struct {
	engine pruner
	limits limits
	free   func() (int64, error)
	told   func(line string) error
	last   time.Time // of the last prune by age and size
	low    bool      // it was told that the disk is nearly full
}

// look is one look at the disk and at the clock.
func (k *keeper) look(now time.Time) error {
	free, err := k.free()
	if err != nil {
		return err
	}
	low := free < 2*k.limits.floor
	due := (k.limits.keep > 0 || k.limits.maxBytes > 0) && now.Sub(k.last) >= pruneEvery
	if due || low && !k.low {
		k.last = now
		if _, err := k.engine.Prune(k.limits.options(control.PruneRequest{})); err != nil {
			return err
		}
		if free, err = k.free(); err != nil {
			return err
		}
		low = free < 2*k.limits.floor
	}
	if low && k.limits.forget {
		if _, err := k.engine.Prune(overlay.PruneOptions{FreeBytes: 3 * k.limits.floor, Spare: spareAge}); err != nil {
			return err
		}
	}
	was := k.low
	k.low = low
	if low && !was {
		return k.told(now.UTC().Format(time.RFC3339Nano) + fmt.Sprintf(" low-space free=%d floor=%d", free, k.limits.floor) +
			": below the floor changes are refused; `ttfs prune --keep 30d` gives up old history")
	}
	return nil
}

// freeOn is the free space where less of it is: in the workspace, or on the disk of journal and blobs.
func freeOn(tt int, store string) (int64, error) {
	var a, b unix.Statfs_t
	if err := unix.Fstatfs(tt, &a); err != nil {
		return 0, err
	}
	if err := unix.Statfs(store, &b); err != nil {
		return 0, err
	}
	return min(int64(a.Bavail)*a.Bsize, int64(b.Bavail)*b.Bsize), nil
}

// Prune gives up old history of a store that is not mounted. A request that says nothing means what the configuration says.
func (d *Detached) Prune(r control.PruneRequest) (overlay.PruneResult, error) {
	uid, _, err := ownerOf(d.store.root)
	if err != nil {
		return overlay.PruneResult{}, err
	}
	c, _, err := loadConfig(d.store.root, "", uid)
	if err != nil {
		return overlay.PruneResult{}, err
	}
	return d.Engine.Prune(c.limits(d.store.tt).options(r))
}
