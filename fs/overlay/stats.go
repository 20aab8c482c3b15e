package overlay

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/ttfs/ttfs/cas"
	"github.com/ttfs/ttfs/journal"
	"github.com/ttfs/ttfs/tasktree"
	"golang.org/x/sys/unix"
)

// counters count since the engine was opened.
type counters struct {
	records, refused, moves, tasks, archived, guarded, pruned atomic.Uint64

	forks, forkNanos atomic.Uint64 // made, and how long that took in all
}

// viewCache is the view used last.
type viewCache struct {
	mu   sync.Mutex
	view *view // +checklocks:mu
	plan tasktree.Plan
	at   uint64
}

// Stats is the size of what is kept.
type Stats struct {
	Tasks      int
	Agents     int
	Nodes      int
	HoldCount  int   // inodes and copies in hold
	HoldBytes  int64 // allocated for them
	Journal    journal.Stats
	Blobs      cas.Stats
	Incomplete int
}

// Stats looks at the store. Units: bytes.
func (e *Engine) Stats() (Stats, error) {
	if err := e.enterPast(); err != nil {
		return Stats{}, err
	}
	defer e.leavePast()
	s := Stats{Journal: e.j.Stats(), Blobs: e.blobs.Stats()}
	for _, k := range e.Tasks() {
		s.Tasks++
		if k.Incomplete {
			s.Incomplete++
		}
	}
	s.Agents = len(e.Agents())
	e.nodes.mu.Lock()
	s.Nodes = len(e.nodes.byID)
	e.nodes.mu.Unlock()
	err := e.eachHeld(func(name string, st *Stat) error {
		s.HoldCount++
		s.HoldBytes += int64(st.Blocks) * 512
		return nil
	})
	return s, err
}

// eachHeld calls f for everything in hold.
func (e *Engine) eachHeld(f func(name string, st *Stat) error) error {
	fd, err := openAt(e.hold, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return fail("list hold", "", IO, err)
	}
	defer unix.Close(fd)
	var first error
	err = eachDirent(fd, listBytes, func(ent Dirent) bool {
		var st Stat
		if statAt(fd, ent.Name, &st) == nil { // it may have gone meanwhile
			first = f(ent.Name, &st)
		}
		return first == nil
	})
	if first == nil && err != nil {
		first = fail("list hold", "", IO, err)
	}
	return first
}

// Metrics writes counters in Prometheus' text format.
func (e *Engine) Metrics(w io.Writer) {
	j := e.j.Stats()
	for _, m := range []struct {
		name, kind, help string
		v                uint64
	}{
		{"ttfs_records_total", "counter", "Records of first touches written to the journal.", e.count.records.Load()},
		{"ttfs_refused_total", "counter", "Changes refused because their before-image could not be kept.", e.count.refused.Load()},
		{"ttfs_guard_refused_total", "counter", "Changes refused because their agent had not seen what they would destroy.", e.count.guarded.Load()},
		{"ttfs_moves_total", "counter", "Undo, redo and switch.", e.count.moves.Load()},
		{"ttfs_tasks_total", "counter", "Tasks begun.", e.count.tasks.Load()},
		{"ttfs_archived_total", "counter", "Pieces moved into the content-addressed store.", e.count.archived.Load()},
		{"ttfs_pruned_total", "counter", "Tasks whose before-images were given up.", e.count.pruned.Load()},
		{"ttfs_forks_total", "counter", "Forks made.", e.count.forks.Load()},
		{"ttfs_fork_nanoseconds_total", "counter", "What making them took, from the command to the fork.", e.count.forkNanos.Load()},
		{"ttfs_journal_bytes", "gauge", "Bytes of the journal's segments.", uint64(j.SegmentBytes)},
		{"ttfs_journal_segments", "gauge", "Segments of the journal.", uint64(j.Segments)},
	} {
		fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n%s %d\n", m.name, m.help, m.name, m.kind, m.name, m.v)
	}
}

// SetProgress makes f hear how far Verify, or a step of a move, is: of how many parts how many are done.
func (e *Engine) SetProgress(f func(done, total int)) { e.progress.Store(&f) }

func (e *Engine) far(done, total int) {
	if f := e.progress.Load(); f != nil {
		(*f)(done, total)
	}
}
