package overlay

import (
	"errors"
	"strconv"
	"sync"

	"github.com/ttfs/ttfs/journal"
	"golang.org/x/sys/unix"
)

// The holding area, `.tt/hold`, is on the filesystem of the workspace. In it are
//
//	oHEX  an inode set aside, by its object's number
//	cHEX  a copy of bytes that were overwritten, by the copy's number
//
// and nothing else. What nobody refers to any more is garbage of a death and may go.

func holdName(id OID) string    { return "o" + strconv.FormatUint(uint64(id), 16) }
func copyName(id copyID) string { return "c" + strconv.FormatUint(uint64(id), 16) }

// copyID names a file of bytes in hold. It is never used twice.
type copyID uint64

type copyCounter struct {
	mu          sync.Mutex
	next, limit uint64 // +checklocks:mu
}

// newCopy makes an empty file in hold. Errors: NoSpace, IO.
func (e *Engine) newCopy() (copyID, int, error) {
	e.copies.mu.Lock()
	if e.copies.next == e.copies.limit {
		v, found, err := e.j.Get([]byte{kCounter, 'c'})
		next := uint64(1)
		if err == nil && found {
			d := dec{b: v}
			next, err = d.u(), d.err
		}
		if err == nil {
			var b journal.Batch
			var c enc
			c.u(next + reserve)
			b.Put([]byte{kCounter, 'c'}, c.b)
			err = e.j.Commit(&b)
		}
		if err != nil {
			e.copies.mu.Unlock()
			return 0, -1, storeError("number a copy", err)
		}
		e.copies.next, e.copies.limit = next, next+reserve
	}
	id := copyID(e.copies.next)
	e.copies.next++
	e.copies.mu.Unlock()
	fd, err := openAt(e.hold, copyName(id), unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return 0, -1, storeError("make a copy", err)
	}
	return id, fd, nil
}

func (e *Engine) dropCopy(id copyID) {
	if err := unlinkAt(e.hold, copyName(id), 0); err != nil && !errors.Is(err, unix.ENOENT) {
		e.log.Warn("a copy could not be removed; fsck will name it", "copy", copyName(id), "err", err)
	}
}

// inHold says whether an object's own inode is in hold.
func (e *Engine) inHold(id OID, k inoKey) bool {
	var st Stat
	return statAt(e.hold, holdName(id), &st) == nil && keyOf(&st) == k
}

// unhold drops the link in hold of a file that has a name in the tree, so that its number of links is what it was.
func (s *step) unhold(o *object) {
	e := s.e
	if o.kind == unix.S_IFDIR || o.at.dir == 0 || !e.inHold(o.id, o.key) {
		return
	}
	fd, done, err := e.openDir(o.at.dir, 0)
	if err != nil {
		return
	}
	defer done()
	var st Stat
	if statAt(fd, o.at.name, &st) != nil || keyOf(&st) != o.key {
		return
	}
	if err := unlinkAt(e.hold, holdName(o.id), 0); err != nil {
		e.log.Warn("a link in hold could not be removed", "name", holdName(o.id), "err", err)
	}
}

// dropCopies removes the copies of images that nothing refers to any more.
func (e *Engine) dropCopies(im *images) {
	for _, c := range im.contents {
		for i := range c.pieces {
			if c.pieces[i].kind == pieceCopy {
				e.dropCopy(c.pieces[i].copy)
			}
		}
	}
}

// ownCopies gives images copies of their own in the place of those that are others'. When it fails, they have none.
func (e *Engine) ownCopies(im *images) (err error) {
	var made []copyID
	defer func() {
		if err != nil {
			for _, id := range made {
				e.dropCopy(id)
			}
		}
	}()
	for _, c := range im.contents {
		for i := range c.pieces {
			p := &c.pieces[i]
			if p.kind != pieceCopy {
				continue
			}
			r, err := e.openPiece(p)
			if err != nil {
				return err
			}
			p.copy, err = e.copyOut(r.fd, span{0, p.size})
			r.close()
			if err != nil {
				return err
			}
			made = append(made, p.copy)
		}
	}
	return nil
}
