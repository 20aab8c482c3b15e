package overlay

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/ttfs/ttfs/cas"
)

// The archiver is in nobody's way. After each chunk it rests three times as long as it worked for it, so that it takes a
// quarter of one processor at most; and while programs change much it does not work at all, though not for ever, since
// what it has not archived takes the most room. What takes most of its time, to hash and to compress, is done by a process of
// its own at idle priority (Options.Packer).
//
// Rejected: a thread of the daemon at idle priority. The collector of Go waits for every thread: with one that gets no time, on a busy
// machine of two processors, a collection took 310 ms instead of 5, and 2.5 s at worst, and everybody waits for it.

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
	// now is the time.
	now func() time.Time
	// pack starts who packs; nil: the engine does.
	pack func() (cas.Packer, error)

	began  bool          // it has looked whether programs change much
	waited time.Duration // for them
	since  time.Time     // when it began to work
	went   time.Duration // work and rest since it looked
	seen   uint64        // records when it looked
	packer cas.Packer
	end    func() // of the round
}

func (e *Engine) newPace() *pace {
	ctx, cancel := e.whileOpen()
	p := &pace{records: e.count.records.Load, now: time.Now, end: cancel, wait: func(d time.Duration) bool {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
			return true
		case <-e.arch.stop:
			return false
		}
	}}
	if e.opt.Packer != nil {
		p.pack = func() (cas.Packer, error) { return e.startPacker(ctx, p) }
	}
	return p
}

// startPacker starts the process that packs, until the end of the round.
func (e *Engine) startPacker(ctx context.Context, p *pace) (cas.Packer, error) {
	by, stop, err := e.opt.Packer(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		e.log.Warn("there is no process to pack at idle priority: the daemon does it", "err", err)
		p.pack = nil
		return nil, nil
	}
	end := p.end
	p.end = func() {
		stop()
		end()
	}
	return by, nil
}

// packedBy is who packs; nil: the store itself.
func (p *pace) packedBy() (cas.Packer, error) {
	if p == nil || p.pack == nil {
		return nil, nil
	}
	if p.packer != nil {
		return p.packer, nil
	}
	by, err := p.pack()
	p.packer = by
	return by, err
}

// failed says that something could not be packed: another process is started the next time.
func (p *pace) failed() {
	if p != nil {
		p.packer = nil
	}
}

// begin waits, the first time in a round, until programs change little, and says that work begins; false: the engine is
// being closed.
func (p *pace) begin() bool {
	if p == nil {
		return true
	}
	if !p.began && !p.quiet() {
		return false
	}
	p.began, p.since = true, p.now()
	return true
}

// quiet waits until programs change little; false: the engine is being closed.
func (p *pace) quiet() bool {
	for before := p.records(); p.waited < archiveWaits; {
		if !p.wait(archiveLook) {
			return false
		}
		now := p.records()
		if now-before < archiveBusy {
			break
		}
		before = now
		p.waited += archiveLook
	}
	p.seen, p.went = p.records(), 0
	return true
}

// pause rests after the work since begin, or since the last pause, and looks once in a while whether programs change much;
// false: the engine is being closed.
func (p *pace) pause() bool {
	if p == nil {
		return true
	}
	worked := p.now().Sub(p.since)
	if !p.wait(archiveRest * worked) {
		return false
	}
	if p.went += worked + archiveRest*worked; p.went >= archiveLook {
		much := time.Duration(p.records()-p.seen)*archiveLook >= archiveBusy*p.went
		p.seen, p.went = p.records(), 0
		if much && !p.quiet() {
			return false
		}
	}
	p.since = p.now()
	return true
}

// errArchiveEnds ends the reading of what is being archived when the engine is being closed.
var errArchiveEnds = errors.New("the engine is being closed")

// pacedReader reads what is archived. When it is asked for the next chunk, the one before has been packed.
type pacedReader struct {
	e    *Engine
	pace *pace
	r    io.Reader
	n    int // bytes since it rested
}

// Read rests before each chunk but the first.
func (r *pacedReader) Read(b []byte) (int, error) {
	if r.n >= cas.ChunkBytes {
		if r.n = 0; !r.pace.pause() {
			return 0, errArchiveEnds
		}
	}
	if r.e.stopping() {
		return 0, errArchiveEnds
	}
	n, err := r.r.Read(b)
	r.n += n
	return n, err
}
