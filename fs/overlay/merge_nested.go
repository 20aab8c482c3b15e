package overlay

import (
	"github.com/ttfs/ttfs/journal"
	"golang.org/x/sys/unix"
)

// ready makes a parent that is a fork itself able to take images of what no task of its own has touched: names that are to
// hide what it was made of are marked so in the record of the move, and files that get other bytes are filled before it.
// Preconditions: what the images change is claimed.
func (e *Engine) ready(b *journal.Batch, im *images) error {
	if e.lower == nil {
		return nil
	}
	for at := range im.entries {
		o, _, err := e.originOf(at.dir)
		if err != nil {
			return err
		}
		if o != nil {
			b.Put(takenKey(at.dir, at.name), nil)
		}
	}
	for _, id := range sortedOIDs(im.contents) {
		if err := e.fillObject(id); err != nil {
			return err
		}
	}
	return nil
}

// fillObject is fill for an object that the kernel may not know.
func (e *Engine) fillObject(id OID) error {
	from, _, err := e.originOf(id)
	if err != nil || from == nil || !from.hollow.Load() {
		return err
	}
	o, found, err := e.getObject(id)
	if err != nil || !found {
		return err
	}
	dir, name, done, err := e.locate(id)
	if err != nil {
		return err
	}
	defer done()
	path, err := openAt(dir, name, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer unix.Close(path)
	if n := e.known(o.key); n != nil {
		defer e.unpin(n)
		n.mu.Lock()
		defer n.mu.Unlock()
		from = n.from
		if !from.hollow.Load() {
			return nil
		}
	}
	return e.fillFD(id, from, path)
}
