package fs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"syscall"

	"github.com/ttfs/ttfs/fs/control"
	"github.com/ttfs/ttfs/fs/overlay"
)

// checks is `.tt/fsck`: at most one check at a time. The zero value is ready.
type checks struct {
	mu      sync.Mutex
	running *check // +checklocks:mu
	closed  bool   // +checklocks:mu no more of them: the store is about to be closed
}

// checkFile is what stands behind `.tt/fsck` and `.tt/fsck.json`.
type checkFile struct {
	all    *checks
	verify func(ctx context.Context, report func(string)) (overlay.VerifyCounts, error)
	json   bool
}

// maxProblems bounds the sentences that one check gives.
const maxProblems = 10000

// check is one check, for one open file: what it has said so far can be read, at any offset, and a read past that waits. It
// reads the store and nothing else, so that no request of the mount is waited for.
type check struct {
	stop context.CancelFunc
	done chan struct{} // closed when it has ended

	mu   sync.Mutex
	said []byte        // +checklocks:mu
	more chan struct{} // +checklocks:mu closed when there is more, or the end
	over bool          // +checklocks:mu
	err  error         // +checklocks:mu
}

// open begins a check. Errors: Running.
func (f *checkFile) open() (*check, error) {
	f.all.mu.Lock()
	defer f.all.mu.Unlock()
	if f.all.running != nil || f.all.closed {
		return nil, &control.Error{Op: ".tt/fsck", Kind: control.Running, Detail: "one check at a time; wait until it has ended"}
	}
	ctx, stop := context.WithCancel(context.Background())
	c := &check{stop: stop, done: make(chan struct{}), more: make(chan struct{})}
	f.all.running = c
	go func() {
		defer close(c.done)
		f.run(ctx, c)
		f.all.mu.Lock()
		defer f.all.mu.Unlock()
		f.all.running = nil
	}()
	return c, nil
}

// checkResult is `.tt/fsck.json`. Fields are added, never renamed.
type checkResult struct {
	Tasks    int      `json:"tasks"`
	Images   int      `json:"images"`
	Pieces   int      `json:"pieces"`
	Records  int      `json:"records"`
	Blobs    int      `json:"blobs"`
	Problems []string `json:"problems"`
}

// run checks. The text is a line a problem, and the counts in the last one; the JSON comes at the end.
func (f *checkFile) run(ctx context.Context, c *check) {
	res := checkResult{Problems: []string{}}
	n, err := f.verify(ctx, func(problem string) {
		if len(res.Problems) == maxProblems {
			return
		}
		res.Problems = append(res.Problems, problem)
		if !f.json {
			c.say([]byte(problem + "\n"))
		}
	})
	if err != nil {
		c.end(&control.Error{Op: ".tt/fsck", Kind: control.Failed, Detail: "the check itself failed", Err: err})
		return
	}
	if rest := n.Problems - len(res.Problems); rest > 0 {
		and := fmt.Sprintf("and %d more", rest)
		res.Problems = append(res.Problems, and)
		if !f.json {
			c.say([]byte(and + "\n"))
		}
	}
	res.Tasks, res.Images, res.Pieces, res.Records, res.Blobs = n.Tasks, n.Images, n.Pieces, n.Records, n.Blobs
	if f.json {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		err = e.Encode(res)
		c.say(b.Bytes())
	} else {
		c.say([]byte(n.String() + "\n"))
	}
	c.end(err)
}

func (c *check) say(text []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.said = append(c.said, text...)
	close(c.more)
	c.more = make(chan struct{})
}

func (c *check) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over, c.err = true, err
	close(c.more)
	c.more = make(chan struct{})
}

// read gives what was said from an offset on; it waits for more until there is some, or the caller is interrupted, which
// ends the check.
func (c *check) read(cancel <-chan struct{}, b []byte, off int64) (int, error) {
	for {
		c.mu.Lock()
		said, more, over, err := c.said, c.more, c.over, c.err
		c.mu.Unlock()
		switch {
		case off < int64(len(said)):
			return copy(b, said[off:]), nil
		case over:
			return 0, err
		}
		select {
		case <-more:
		case <-cancel:
			c.stop()
			return 0, syscall.EINTR
		}
	}
}

// close ends the check; it does not wait for the end.
func (c *check) close() { c.stop() }

// end ends a check that runs, waits for it, and lets none begin.
func (a *checks) end() {
	a.mu.Lock()
	a.closed = true
	c := a.running
	a.mu.Unlock()
	if c != nil {
		c.stop()
		<-c.done
	}
}

var _ control.Checker = (*backend)(nil)

// Fsck is a *checkFile.
func (b *backend) Fsck(json bool) (any, error) {
	return &checkFile{all: b.checks, verify: b.Engine.Verify, json: json}, nil
}
