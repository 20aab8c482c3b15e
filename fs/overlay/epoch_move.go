package overlay

import (
	"errors"

	"github.com/ttfs/ttfs/journal"
)

// freezeStep keeps for the newest epoch what a step of a move is about to change and it has not yet, in the step's own
// record. mark makes it the epoch's when that is committed; else drop lets the copies go. Preconditions: s.have is made.
//
// Moves that run beside one another share nothing but the times of directories. Both may find that the epoch has none yet: then
// neither had changed anything when it read them, since what one changes it has marked before, and both keep the same.
func (s *step) freezeStep(b *journal.Batch) (mark, drop func(), err error) {
	e := s.e
	r := e.epochs.newest.Load()
	if r == nil {
		return func() {}, func() {}, nil
	}
	im, t := newImages(), &firsts{run: r}
	s.setMoving(true) // those that got a number now have no record yet
	defer s.setMoving(false)
	letGo := func() { s.e.dropCopies(im) }
	defer func() {
		if err != nil {
			letGo()
		}
	}()
	for _, at := range sortedSpots(s.want.entries) {
		if !r.hasEntry(at.dir, at.name) {
			im.entries[at] = s.have.entries[at]
			t.entries = append(t.entries, at)
		}
		for _, id := range []OID{s.have.entries[at], s.want.entries[at]} {
			if err := s.freezeLinks(b, r, id); err != nil {
				return nil, nil, err
			}
		}
	}
	for id := range s.have.metas {
		if !r.hasMeta(id) {
			im.metas[id] = s.have.metas[id]
			t.metas = append(t.metas, id)
		}
	}
	for _, id := range sortedOIDs(s.have.contents) {
		c, err := s.freezeContent(r, id)
		if err != nil {
			return nil, nil, err
		}
		im.contents[id] = &content{size: c.cov.size, pieces: c.pieces}
		t.contents = append(t.contents, c)
	}
	im.put(b, nil, r.id)
	return t.mark, letGo, nil
}

// freezeLinks keeps how many names a file has, if the epoch has not.
func (s *step) freezeLinks(b *journal.Batch, r *run, id OID) error {
	if id == 0 {
		return nil
	}
	k := linksKey(r.id, id)
	if _, has, err := s.e.j.Get(k); has || err != nil {
		return storeError("prepare a move", err)
	}
	n, isFile, err := s.e.linksNow(id)
	if err == nil && isFile {
		b.Put(k, encodeNumber(uint64(n)))
	}
	if errors.Is(err, Gone) {
		return nil
	}
	return err
}

// freezeContent keeps the bytes of a file that a step is about to change, as far as the epoch has not.
func (s *step) freezeContent(r *run, id OID) (touched, error) {
	have := s.have.contents[id]
	cov := r.coverage(id)
	if cov == nil {
		cov = &covered{size: have.size}
	}
	out := touched{id: id, cov: cov}
	var gaps []span
	for _, p := range have.pieces {
		gaps = append(gaps, cov.gaps(p.off, p.off+p.size)...)
	}
	err := s.open(id, 0, func(fd int) (err error) {
		out.pieces, err = s.e.capture(fd, gaps)
		return err
	})
	return out, err
}
