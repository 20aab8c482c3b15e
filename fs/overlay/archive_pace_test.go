package overlay

import (
	"strings"
	"testing"
	"time"
)

// TestPace: the archiver waits while programs change much, though not for ever, rests as long as it is to, and ends its
// waiting with the engine.
func TestPace(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		rates  []uint64 // records in each look, the last one for ever
		closed int      // look at which the engine is closed; 0: never
		quiet  bool
		looks  int
	}{
		{"nobody works", []uint64{0}, 0, true, 1},
		{"somebody works a little", []uint64{archiveBusy - 1}, 0, true, 1},
		{"somebody works, and then no more", []uint64{500, 500, archiveBusy, 3}, 0, true, 4},
		{"somebody works without end", []uint64{archiveBusy}, 0, true, int(archiveWaits / archiveLook)},
		{"the engine is closed", []uint64{500}, 3, false, 3},
	} {
		records, looks := uint64(0), 0
		p := &pace{records: func() uint64 { return records }}
		p.wait = func(d time.Duration) bool {
			if d != archiveLook {
				t.Errorf("%s: it looks again after %v", c.name, d)
			}
			records += c.rates[min(looks, len(c.rates)-1)]
			looks++
			return looks != c.closed
		}
		if got := p.quiet(); got != c.quiet || looks != c.looks {
			t.Errorf("%s: quiet is %v after %d looks; should be %v after %d", c.name, got, looks, c.quiet, c.looks)
		}
	}
}

// TestArchivePaced: in the background each file is asked about before it and rested after, its bytes end up as a blob, and
// nothing is archived once the engine is being closed.
func TestArchivePaced(t *testing.T) {
	t.Parallel()
	s := newStand(t, 1)
	const files = 5
	for i := range files {
		s.must(s.create(benchName(i), strings.Repeat(benchName(i), 2000), 0o644))
	}
	s.begin("change")
	for i := range files {
		s.must(s.rewrite(benchName(i), "changed"))
	}
	s.begin("after")
	archived := s.e.count.archived.Load()
	looks, rests := 0, 0
	p := &pace{records: s.e.count.records.Load}
	p.wait = func(d time.Duration) bool {
		if done := int(s.e.count.archived.Load() - archived); d == archiveLook && done == looks {
			looks++
		} else if done == rests+1 {
			rests++
		} else {
			t.Errorf("after %d files it waits %v, with %d looks and %d rests before", done, d, looks, rests)
		}
		return rests < files-1
	}
	s.must(s.e.archive(p))
	if done := s.e.count.archived.Load() - archived; looks != files-1 || rests != files-1 || done != files-1 {
		t.Errorf("%d looks, %d rests and %d files archived, should be %d each", looks, rests, done, files-1)
	}
	s.must(s.e.Archive())
	if done := s.e.count.archived.Load() - archived; done != files {
		t.Errorf("%d files are archived, should be %d", done, files)
	}
	s.undo()
	s.undo()
	for i := range files {
		if got := s.content(benchName(i)); got != strings.Repeat(benchName(i), 2000) {
			t.Errorf("file %d has %d bytes after the undo", i, len(got))
		}
	}
	s.verify()
}
