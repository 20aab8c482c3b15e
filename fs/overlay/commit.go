package overlay

import (
	"errors"

	"golang.org/x/sys/unix"
)

// commit hands the record to the kernel. When it returns nil the change may be applied. When it fails nothing was
// recorded and the change is to be refused, unless the engine was told to let it pass.
func (ch *change) commit() error {
	e := ch.e
	if err := e.point("record"); err != nil {
		return ch.refused(err)
	}
	if !ch.b.Empty() {
		commit := e.j.Commit
		if ch.removes {
			commit = e.j.CommitFreeing
		}
		if err := commit(&ch.b); err != nil {
			return ch.refused(err)
		}
		e.count.records.Add(1)
	}
	e.own(ch.run, ch.owns)
	for _, k := range ch.numbers {
		e.setOID(k.n, k.id)
	}
	for i := range ch.wrote {
		ch.wrote[i].told()
	}
	return ch.all(func(t *firsts) error { t.mark(); return nil })
}

// commitFor is commit for a change through an open file. One that was opened with O_SYNC or O_DSYNC makes durable what it
// writes, so what it overwrites, now or passed through, must be durable before, also where an earlier change kept it.
func (ch *change) commitFor(h *Handle) error {
	err := ch.commit()
	if err == nil && h.flags&unix.O_DSYNC != 0 { // O_SYNC has its bit
		err = storeError("sync", ch.e.j.Sync())
	}
	return err
}

// mark makes what was recorded the run's.
func (t *firsts) mark() {
	for _, s := range t.entries {
		t.run.markEntry(s.dir, s.name)
	}
	for _, o := range t.metas {
		t.run.markMeta(o)
	}
	for _, c := range t.contents {
		for _, p := range c.pieces {
			c.cov.add(p.off, p.off+p.size)
		}
		t.run.setCoverage(c.id, c.cov)
	}
}

// refused says why the change cannot be recorded, of which nothing is left then. Where the engine was told to let it pass, it
// passes, without a record.
func (ch *change) refused(err error) error {
	ch.drop()
	err = storeError("record", err)
	ch.e.count.refused.Add(1)
	if ch.e.opt.Pass {
		ch.e.markIncomplete(ch.run.id)
		ch.e.log.Error("a change passes without its before-image", "task", ch.run.id, "err", err)
		return nil
	}
	return err
}

// unkept is refused for what the store would not keep before there is a record. Any other error is what the operation ends with.
func (ch *change) unkept(err error) error {
	var own *Error
	if errors.As(err, &own) && (own.Kind == NoSpace || own.Kind == NoFiles || own.Kind == IO) {
		return ch.refused(err)
	}
	ch.drop()
	return err
}

// drop empties the record, and drops the copies that were made for it.
func (ch *change) drop() {
	_ = ch.all(func(t *firsts) error {
		for _, c := range t.contents {
			for _, p := range c.pieces {
				if p.kind == pieceCopy {
					ch.e.dropCopy(p.copy)
				}
			}
		}
		t.entries, t.metas, t.contents = nil, nil, nil
		return nil
	})
	ch.b.Reset()
	ch.family, ch.wrote, ch.numbers, ch.owns = nil, nil, nil, nil
}
