package overlay

import "time"

// The archiver is in nobody's way. Between two files it rests three times as long as the last one took, so that it takes a
// quarter of one processor at most; and while programs change much it does not work at all, though not for ever, since
// what it has not archived takes the most room. It has no priority of the system's lower than the others': it holds the past
// while it works on a file, and a move would wait for a thread that gets no time.

const (
	// archiveRest is how many times as long as it worked the archiver rests.
	archiveRest = 3
	// archiveBusy is how many records of first touches within archiveLook make it wait.
	archiveBusy = 100
	archiveLook = time.Second
	// archiveWaits is how long it waits in one round at most.
	archiveWaits = 10 * time.Minute
)

// pace is how the archiver goes about one round. nil: at once, for who waits for it.
type pace struct {
	// wait waits, and is false when the engine is being closed.
	wait func(time.Duration) bool
	// records counts those of first touches.
	records func() uint64
	waited  time.Duration
}

func (e *Engine) newPace() *pace {
	return &pace{records: e.count.records.Load, wait: func(d time.Duration) bool {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
			return true
		case <-e.arch.stop:
			return false
		}
	}}
}

// quiet waits until programs change little; false: the engine is being closed.
func (p *pace) quiet() bool {
	if p == nil {
		return true
	}
	for before := p.records(); p.waited < archiveWaits; {
		if !p.wait(archiveLook) {
			return false
		}
		now := p.records()
		if now-before < archiveBusy {
			return true
		}
		before = now
		p.waited += archiveLook
	}
	return true
}

// rest waits after work; false: the engine is being closed.
func (p *pace) rest(worked time.Duration) bool { return p == nil || p.wait(archiveRest*worked) }
