package overlay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/ttfs/ttfs/cas"
	"github.com/ttfs/ttfs/journal"
	"github.com/ttfs/ttfs/tasktree"
)

// VerifyCounts says how much was looked at.
type VerifyCounts struct {
	Tasks, Images, Pieces, Records, Blobs, Problems int
}

// String is the counts for a person.
func (n VerifyCounts) String() string {
	s := ""
	for _, c := range []struct {
		n    int
		what string
	}{{n.Tasks, "task"}, {n.Images, "image"}, {n.Pieces, "piece"}, {n.Records, "record"}, {n.Blobs, "blob"}, {n.Problems, "problem"}} {
		if s != "" {
			s += map[bool]string{true: ": ", false: ", "}[c.what == "problem"]
		}
		s += fmt.Sprintf("%d %s", c.n, c.what)
		if c.n != 1 {
			s += "s"
		}
	}
	return s
}

// Verify reads everything that is kept and reports each damage as a sentence. It runs beside everything else, moves
// included: they never wait for it longer than sliceTime, and what they change meanwhile is looked at as it is then. Errors:
// that the looking itself failed; those of ctx; Closed.
func (e *Engine) Verify(ctx context.Context, report func(string)) (VerifyCounts, error) {
	v := verification{ctx: ctx, e: e, report: report}
	err := v.run()
	return v.n, err
}

// sliceTime is for how long who reads history holds up the moves that wait for it.
const sliceTime = 20 * time.Millisecond

// verification is one Verify.
type verification struct {
	ctx    context.Context
	e      *Engine
	n      VerifyCounts
	report func(string)
}

func (v *verification) bad(format string, args ...any) {
	v.n.Problems++
	v.report(fmt.Sprintf(format, args...))
}

func (v *verification) run() error {
	e := v.e
	all := e.Tasks()
	for i, k := range all {
		e.far(i, len(all)+2)
		v.n.Tasks++
		if err := v.task(k.ID); err != nil {
			return err
		}
	}
	e.far(len(all), len(all)+2)
	jc, err := e.j.Verify(v.ctx, func(p journal.Problem) { v.bad("journal: %v", p) })
	if err != nil {
		return v.failed(err)
	}
	e.far(len(all)+1, len(all)+2)
	v.n.Records = int(jc.Records)
	bc, err := e.blobs.Verify(v.ctx, func(p cas.Problem) { v.bad("blobs: %v", p) })
	if err != nil {
		return v.failed(err)
	}
	v.n.Blobs = bc.Chunks + bc.Lists
	return nil
}

// failed is an error of the looking; that of the context is told as it is.
func (v *verification) failed(err error) error {
	if e := v.ctx.Err(); e != nil {
		return e
	}
	return storeError("verify", err)
}

// images are those of a task as they are now; nil for one that was pruned or came to nothing. Preconditions: past is held.
func (v *verification) images(id tasktree.TaskID) (*images, error) {
	if k, has := v.e.Task(id); !has || k.Pruned {
		return nil, nil
	}
	return v.e.readImages(id)
}

// enter holds what a task keeps as it is, against moves of its agent; another's can change where something is, not that it is.
func (v *verification) enter(k *tasktree.Task) (leave func(), err error) {
	e := v.e
	for {
		if err := e.enterPast(); err != nil {
			return nil, err
		}
		release, busy := e.holdPast(k.Agent)
		if busy == nil {
			return func() { release(); e.leavePast() }, nil
		}
		e.leavePast()
		<-busy
	}
}

// task looks at what one task keeps, in slices.
func (v *verification) task(id tasktree.TaskID) error {
	e := v.e
	k, has := e.Task(id)
	if !has {
		return nil
	}
	leave, err := v.enter(&k)
	if err != nil {
		return err
	}
	defer func() { leave() }()
	im, err := v.images(id)
	if err != nil {
		v.bad("task %d: its images cannot be read: %v", id, err)
	}
	if im == nil || err != nil {
		return nil
	}
	v.n.Images += len(im.entries) + len(im.metas) + len(im.contents)
	began := time.Now()
	swaps := e.swaps.Load()
	for _, at := range sortedSpots(im.entries) {
		if err := v.ctx.Err(); err != nil {
			return err
		}
		if time.Since(began) > sliceTime {
			leave()
			leave = func() {}
			if leave, err = v.enter(&k); err != nil {
				leave = func() {}
				return err
			}
			began = time.Now()
			if now := e.swaps.Load(); now != swaps { // a move came between: what it changed is to be looked at as it is now
				swaps = now
				if im, err = v.images(id); err != nil || im == nil {
					return v.failed(err)
				}
			}
		}
		if o, has := im.entries[at]; has && o != 0 {
			v.entry(id, at, o)
		}
	}
	for _, o := range slices.Concat(sortedOIDs(im.metas), sortedOIDs(im.contents)) {
		if _, found, err := e.getObject(o); err != nil || !found {
			v.bad("task %d: object %d has no record", id, o)
		}
	}
	leave()
	leave = func() {}
	for _, o := range sortedOIDs(im.contents) {
		for i := range im.contents[o].pieces {
			if err := v.ctx.Err(); err != nil {
				return err
			}
			v.n.Pieces++
			p := &im.contents[o].pieces[i]
			err := v.piece(id, o, p)
			if errors.Is(err, Closed) || v.ctx.Err() != nil {
				return v.failed(err)
			}
			if err != nil {
				v.bad("task %d: bytes %d to %d of object %d: %v", id, p.off, p.off+p.size, o, err)
			}
		}
	}
	return nil
}

// entry looks for what an image names. Preconditions: past is held.
func (v *verification) entry(id tasktree.TaskID, at spot, o OID) {
	e := v.e
	for try := 0; ; try++ {
		if try == 3 {
			e.places.still()
			defer e.places.move()
		}
		problem := ""
		if _, found, err := e.getObject(o); err != nil || !found {
			problem = fmt.Sprintf("task %d: the object at %q has no record", id, at.name)
		} else if _, _, done, err := e.locate(o); err == nil {
			done()
		} else if errors.Is(err, Gone) && e.StatusOf(id) != tasktree.Undone {
			problem = fmt.Sprintf("task %d: what was at %q is gone: it was removed or replaced around the mount", id, at.name)
		}
		if problem == "" {
			return
		}
		// A rename may have taken it from the one place to the other while it was looked for, or the image has gone.
		if _, found, err := e.j.Get(entryKey(id, at)); err == nil && !found {
			return
		}
		if try == 3 {
			v.bad("%s", problem)
			return
		}
	}
}

// piece reads a piece, which can be gigabytes, without holding anything up. A blob may go and a copy become one meanwhile:
// what cannot be read is damaged only when the task still says that it is there.
func (v *verification) piece(id tasktree.TaskID, o OID, p *piece) error {
	e := v.e
	if p.kind == pieceInline || p.kind == pieceHole {
		return nil
	}
	if err := e.enterPast(); err != nil {
		return err
	}
	r, err := e.openPiece(p)
	e.leavePast()
	if err == nil {
		err = v.read(p, r)
		r.close()
	}
	if err == nil || v.ctx.Err() != nil {
		return err
	}
	if err := e.enterPast(); err != nil {
		return err
	}
	defer e.leavePast()
	now, found, e2 := e.j.Get(pieceKey(id, o, p.off))
	if e2 == nil && (!found || !bytes.Equal(now, p.encode())) {
		return nil
	}
	if k, has := e.Task(id); !has || k.Pruned {
		return nil
	}
	if r, err = e.openPiece(p); err != nil {
		return err
	}
	defer r.close()
	return v.read(p, r)
}

// read reads all of an open piece.
func (v *verification) read(p *piece, r *pieceReader) error {
	if p.kind == pieceCopy {
		var st Stat
		if err := statAt(r.fd, "", &st); err != nil {
			return err
		}
		if int64(st.Size) != p.size {
			return fmt.Errorf("the copy has %d bytes, not %d", st.Size, p.size)
		}
		return nil
	}
	if r.blob == nil {
		return nil // opening it unpacked it
	}
	b := make([]byte, copyChunk)
	for off := int64(0); off < r.blob.Size(); off += int64(len(b)) {
		if err := v.ctx.Err(); err != nil {
			return err
		}
		if _, err := r.ReadAt(b, off); err != nil && err != io.EOF {
			return err
		}
	}
	return nil
}
