package journal

import "context"

// Sub is a part of a journal that looks like a whole one: all its keys begin with a prefix that its user does not see.
// Opening one costs nothing, and a record of a part is ordered with those of the others.
type Sub struct {
	j      *Journal
	prefix []byte
}

// Sub is the part of the journal below a prefix, which must not be the beginning of any other key's.
func (j *Journal) Sub(prefix []byte) *Sub { return &Sub{j, append([]byte(nil), prefix...)} }

// Sub is the part of the part below a prefix.
func (s *Sub) Sub(prefix []byte) *Sub { return s.j.Sub(s.key(prefix)) }

func (s *Sub) key(k []byte) []byte { return append(s.prefix[:len(s.prefix):len(s.prefix)], k...) }

// Get is Journal.Get.
func (s *Sub) Get(key []byte) (value []byte, found bool, err error) { return s.j.Get(s.key(key)) }

// Scan is Journal.Scan; fn is given the keys without the prefix of the part.
func (s *Sub) Scan(prefix []byte, fn func(key, value []byte) error) error {
	return s.j.Scan(s.key(prefix), func(k, v []byte) error { return fn(k[len(s.prefix):], v) })
}

// View is Journal.View of the part.
func (s *Sub) View(prefix []byte) (*View, error) {
	v, err := s.j.View(s.key(prefix))
	if err == nil {
		v.sub = s.prefix
	}
	return v, err
}

// Commit is Journal.Commit.
func (s *Sub) Commit(b *Batch) error {
	whole, err := s.whole(b)
	if err != nil {
		return err
	}
	return s.j.Commit(whole)
}

// CommitFreeing is Journal.CommitFreeing.
func (s *Sub) CommitFreeing(b *Batch) error {
	whole, err := s.whole(b)
	if err != nil {
		return err
	}
	return s.j.CommitFreeing(whole)
}

// PutAll adds the changes of another batch, which is of the part of the journal below a prefix.
func (b *Batch) PutAll(prefix []byte, part *Batch) {
	s := Sub{prefix: prefix}
	whole, err := s.whole(part)
	if err != nil || whole.tooBig || !b.room(len(whole.buf)) {
		b.tooBig = true
		return
	}
	if len(whole.buf) == 0 {
		return
	}
	if len(b.buf) == 0 {
		b.buf = append(b.buf, whole.buf[:recordHead]...)
	}
	b.buf = append(b.buf, whole.buf[recordHead:]...)
	b.sums = append(b.sums, whole.sums...)
}

// whole is a batch with the keys that it has in the whole journal.
func (s *Sub) whole(b *Batch) (*Batch, error) {
	out := &Batch{tooBig: b.tooBig}
	if len(b.buf) == 0 {
		return out, nil
	}
	err := decodeOps(b.buf[recordHead:], func(o op) {
		switch o.kind {
		case opPut:
			out.Put(s.key(o.key), o.value)
		case opDelete:
			out.Delete(s.key(o.key))
		case opDeletePrefix:
			out.DeletePrefix(s.key(o.key))
		}
	})
	if err != nil {
		return nil, fail("commit", "", ErrIO, err)
	}
	return out, nil
}

// Sync is Journal.Sync.
func (s *Sub) Sync() error { return s.j.Sync() }

// Stats are those of the whole journal.
func (s *Sub) Stats() Stats { return s.j.Stats() }

// Verify looks at nothing: the whole journal's does.
func (s *Sub) Verify(context.Context, func(Problem)) (Counts, error) { return Counts{}, nil }

// Compact does nothing: the whole journal is compacted.
func (s *Sub) Compact() error { return nil }
