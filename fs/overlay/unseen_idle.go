package overlay

import (
	"github.com/ttfs/ttfs/journal"
	"github.com/ttfs/ttfs/tasktree"
)

// untouch takes a file out of a task that kept it for a handle and did not touch it. Preconditions: n.mu is held; the task
// is not sealed.
func (e *Engine) untouch(h *Handle, r *run, id OID) error {
	im, err := e.imagesOf(r.id, id)
	if err != nil {
		return err
	}
	var b journal.Batch
	im.forget(&b, r.id)
	b.Delete(thing{obj: id}.key(r.id))
	if err := e.j.Commit(&b); err != nil {
		return storeError("forget an image", err)
	}
	h.watch.setIdle(0)
	e.forgets(r, id)
	e.dropCopies(im)
	return nil
}

// imagesOf are a task's of one object's content and metadata.
func (e *Engine) imagesOf(task tasktree.TaskID, id OID) (*images, error) {
	im := newImages()
	for _, letter := range []byte{kMeta, kContent, kPiece} {
		if err := e.j.Scan(key(letter, uint64(task), uint64(id)), im.add); err != nil {
			return nil, storeError("read an image", err)
		}
	}
	return im, nil
}

// forgets takes an object's content and metadata out of what a run has touched.
func (e *Engine) forgets(r *run, id OID) {
	e.owners.leave(thing{obj: id}, r.id)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.contents, id)
	delete(r.metas, id)
	delete(r.shared, thing{obj: id})
}

// has puts images back into what a run has touched.
func (r *run) has(im *images) {
	for id := range im.metas {
		r.markMeta(id)
	}
	for id, c := range im.contents {
		cov := &covered{size: c.size}
		for _, p := range c.pieces {
			cov.add(p.off, p.off+p.size)
		}
		r.setCoverage(id, cov)
		r.shares(thing{obj: id})
	}
}
