package overlay

import (
	"slices"
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

// clocked is a pace on a clock of its own: to wait, or to work for as long as work says, takes no time.
func clocked(records func() uint64, wait func(d time.Duration) bool) (p *pace, work func(d time.Duration)) {
	now := time.Unix(0, 0)
	p = &pace{records: records, now: func() time.Time { return now }, end: func() {}}
	p.wait = func(d time.Duration) bool { now = now.Add(d); return wait(d) }
	return p, func(d time.Duration) { now = now.Add(d) }
}

// TestPaceRests: it rests three times as long as it worked, looks once a second whether programs change much, and waits
// until they do not.
func TestPaceRests(t *testing.T) {
	t.Parallel()
	records := uint64(0)
	var waits []time.Duration
	p, work := clocked(func() uint64 { return records }, func(d time.Duration) bool { waits = append(waits, d); return true })
	step := func(d time.Duration, changes uint64, want ...time.Duration) {
		t.Helper()
		waits = nil
		work(d)
		records += changes
		if !p.pause() || !slices.Equal(waits, want) {
			t.Errorf("after %v of work and %d changes it waits %v; should %v", d, changes, waits, want)
		}
	}
	if !p.begin() || !slices.Equal(waits, []time.Duration{archiveLook}) {
		t.Errorf("it begins after %v", waits)
	}
	if waits = nil; !p.begin() || waits != nil {
		t.Errorf("it goes on after %v", waits)
	}
	const ms = time.Millisecond
	step(10*ms, 0, 30*ms)
	step(200*ms, archiveBusy/2, 600*ms)
	step(100*ms, 1, 300*ms)                              // it looks: 51 changes in 1.24 s
	step(200*ms, archiveBusy, 600*ms)                    // not yet
	step(100*ms, archiveBusy, 300*ms, archiveLook)       // 200 in 1.2 s: it waits until there are none
	step(300*ms, archiveBusy*12/10-1, 900*ms)            // 119 in 1.2 s
	step(300*ms, archiveBusy*12/10, 900*ms, archiveLook) // 120
}

// TestArchivePaced: in the background it looks before the first file, rests after each, their bytes end up as blobs, and
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
	p, _ := clocked(s.e.count.records.Load, func(d time.Duration) bool {
		if done := int(s.e.count.archived.Load() - archived); d == archiveLook && done == 0 {
			looks++
		} else if rests++; done != rests {
			t.Errorf("after %d files it waits %v, with %d looks and %d rests before", done, d, looks, rests-1)
		}
		return rests < files-1
	})
	s.must(s.e.archive(p))
	if done := s.e.count.archived.Load() - archived; looks != 1 || rests != files-1 || done != files-1 {
		t.Errorf("%d looks, %d rests and %d files archived, should be 1, and %d each", looks, rests, done, files-1)
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
