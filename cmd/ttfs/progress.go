package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// progressAfter is how long work may take before it is shown; progressEvery, how often what is shown changes.
const (
	progressAfter = 500 * time.Millisecond
	progressEvery = 200 * time.Millisecond
)

// progress is one line on a terminal that says how far long work is. Anywhere else it is nothing.
type progress struct {
	w     io.Writer // nil: no terminal
	label string
	stop  chan struct{}
	gone  sync.WaitGroup

	mu          sync.Mutex
	done, total int // +checklocks:mu
}

// startProgress begins to show work on w, if that is a terminal; it is ended by end.
func startProgress(w io.Writer, label string) *progress {
	p := &progress{label: label, stop: make(chan struct{})}
	if f, ok := w.(*os.File); ok && isTerminal(f) {
		p.w = w
		p.gone.Go(p.show)
	}
	return p
}

func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// set says that done of total parts are done.
func (p *progress) set(done, total int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done, p.total = done, total
}

func (p *progress) show() {
	began := time.Now()
	wait := time.NewTimer(progressAfter)
	defer wait.Stop()
	for shown := false; ; shown = true {
		select {
		case <-p.stop:
			if shown {
				fmt.Fprint(p.w, "\r\x1b[K")
			}
			return
		case <-wait.C:
			fmt.Fprint(p.w, "\r"+p.line(time.Since(began))+"\x1b[K")
			wait.Reset(progressEvery)
		}
	}
}

func (p *progress) line(since time.Duration) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := fmt.Sprintf("%s: %d s", p.label, int(since.Seconds()))
	if p.total > 0 {
		s += fmt.Sprintf(", %d of %d (%d%%)", p.done, p.total, 100*p.done/p.total)
	}
	return s
}

// end takes the line away.
func (p *progress) end() {
	close(p.stop)
	p.gone.Wait()
}
