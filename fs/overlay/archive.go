package overlay

import (
	"context"
	"sync"
	"time"

	"github.com/ttfs/ttfs/tasktree"
)

// The archiver turns what sealed tasks keep as copies in hold and as inline bytes into blobs: hashed, compressed, stored
// once. How it goes about one file is in archive_file.go, and how it keeps out of the way in archive_pace.go.

// archivePause is how long the archiver waits between its rounds.
const archivePause = 20 * time.Second

// archiveInline is the size from which inline bytes are worth a blob.
const archiveInline = 4 << 10

type archiver struct {
	// room is the free space on the blobs' disk, and what of it is to stay free.
	room func() (freeBytes, floorBytes int64)
	stop chan struct{}
	done sync.WaitGroup
	tidy chan struct{} // see Engine.tidy
}

func (e *Engine) startArchiver() {
	e.arch.stop, e.arch.tidy = make(chan struct{}), make(chan struct{}, 1)
	e.arch.done.Add(1)
	go func() {
		defer e.arch.done.Done()
		t := time.NewTicker(archivePause)
		defer t.Stop()
		for first := true; ; {
			select {
			case <-e.arch.stop:
				return
			case <-e.arch.tidy:
				if err := e.endEpochs(); err != nil {
					e.log.Warn("what was kept for forks stays until the next mount", "err", err)
				}
			case <-t.C:
				if err := e.saveGuard(false); err != nil {
					e.log.Warn("what the agents know is kept later", "err", err)
				}
				e.sweepAll()
				e.watchIndex()
				if err := e.keepTouched(); err != nil {
					e.log.Warn("when tasks were written to is kept later", "err", err)
				}
				e.archiveRound()
				if !first {
					continue
				}
				first = false
				if _, err := e.Sweep(); err != nil && !e.stopping() { // what a death left over
					e.log.Warn("what nobody needs is given back later", "err", err)
				}
			}
		}
	}()
}

func (e *Engine) stopArchiver() {
	if e.arch.stop == nil {
		return
	}
	select {
	case <-e.arch.stop:
	default:
		close(e.arch.stop)
	}
	e.arch.done.Wait()
}

// archiveRound makes one round, in nobody's way.
func (e *Engine) archiveRound() {
	p := e.newPace()
	defer p.end()
	if err := e.archive(p); err != nil && !e.stopping() {
		e.log.Warn("the archiver goes on later", "err", err)
	}
}

// whileOpen is done when the engine is being closed.
func (e *Engine) whileOpen() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	if e.arch.stop != nil {
		stop := e.arch.stop
		go func() {
			select {
			case <-stop:
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	return ctx, cancel
}

func (e *Engine) stopping() bool {
	select {
	case <-e.arch.stop:
		return true
	default:
		return false
	}
}

// Archive makes one round over the sealed tasks. Errors: NoSpace, IO; what was archived before stays archived.
func (e *Engine) Archive() error { return e.archive(nil) }

func (e *Engine) archive(p *pace) error {
	for _, k := range e.Tasks() {
		if !k.Sealed || k.Pruned || e.archived(k.ID) {
			continue
		}
		if err := e.archiveTask(k.ID, p); err != nil {
			return err
		}
		if e.stopping() {
			return nil
		}
	}
	return nil
}

// archived says that a task was archived since it last moved; it is forgotten with the engine, and then found out again.
func (e *Engine) archived(id tasktree.TaskID) bool {
	e.archMu.Lock()
	defer e.archMu.Unlock()
	return e.archDone[id] == e.count.moves.Load()+1
}

// archivable says whether a piece is worth a blob of its own.
func (p *piece) archivable() bool {
	return p.kind == pieceCopy || p.inRecord() && p.size >= archiveInline
}

func (e *Engine) archiveTask(id tasktree.TaskID, pc *pace) error {
	moves := e.count.moves.Load() + 1
	k, has := e.Task(id)
	if !has || k.Pruned {
		return nil
	}
	work, err := e.archivables(id)
	if err != nil {
		return err
	}
	whole := true
	for _, o := range work {
		switch end, err := e.archiveFile(&k, o, pc); {
		case err != nil || end == archLater:
			return err
		case end == archNoRoom:
			whole = false
		}
	}
	if !whole {
		return nil
	}
	e.archMu.Lock()
	defer e.archMu.Unlock()
	if e.archDone == nil {
		e.archDone = map[tasktree.TaskID]uint64{}
	}
	e.archDone[id] = moves
	return nil
}

// archivables are the files of which a task keeps what is worth a blob, ascending. Of their bytes none stay in memory.
func (e *Engine) archivables(id tasktree.TaskID) (work []OID, err error) {
	if err := e.enterPast(); err != nil {
		return nil, nil
	}
	defer e.leavePast()
	err = e.j.Scan(key(kPiece, uint64(id)), func(k, v []byte) error {
		p, err := decodePiece(0, v)
		if o := OID(keyNum(k, 1)); err == nil && p.archivable() && (len(work) == 0 || work[len(work)-1] != o) {
			work = append(work, o)
		}
		return err
	})
	return work, storeError("archive", err)
}

// watchIndex tells once that the journal's index takes nothing any more. Nothing is lost by it: the segments have
// everything, and the next mount goes on from them; but until then they and the memory for what the index lacks grow.
func (e *Engine) watchIndex() {
	err := e.j.Stats().CheckpointErr
	was := e.indexFailed
	e.indexFailed = err != nil
	if err == nil || was {
		return
	}
	e.log.Error("the journal's index cannot be written: mount again soon, its memory grows until then", "err", err)
	e.event("store-error the journal's index cannot be written: unmount and mount again, nothing is lost by it")
}
