package overlay

import (
	"errors"

	"golang.org/x/sys/unix"
)

// fillImages fills the hollow files of a fork whose bytes are about to become what images say that no open or write of the
// fork's own made, as those of a merge into it: a step reads and writes the inode itself. Preconditions: past is held for
// writing, and no lock below it.
func (e *Engine) fillImages(im *images) error {
	if e.lower == nil {
		return nil
	}
	for _, id := range sortedOIDs(im.contents) {
		if err := e.fillObject(id); err != nil {
			return err
		}
	}
	return nil
}

// fillObject is fill by the number of an object. What is in hold is the fork's own.
func (e *Engine) fillObject(id OID) error {
	o, found, err := e.getObject(id)
	if err != nil || !found || o.kind != unix.S_IFREG || e.inHold(id, o.key) {
		return err
	}
	n := e.known(o.key)
	if n == nil {
		up := (&step{mover: &mover{e: e}}).dirNode(o.at.dir, 0)
		if up == nil {
			return nil // the step finds that it is gone, and says so
		}
		defer e.unpin(up)
		dir, name, done, err := e.locate(id)
		if errors.Is(err, Gone) {
			return nil
		}
		if err != nil {
			return err
		}
		defer done()
		var st Stat
		if err := statAt(dir, name, &st); err != nil {
			return storeError("copy what the fork was made of", err)
		}
		e.places.RLock()
		n = e.intern(up, o.at.name, &st, false)
		e.places.RUnlock()
	}
	defer e.unpin(n)
	n.mu.Lock()
	defer n.mu.Unlock()
	return e.fill(n)
}
