package overlay

import (
	"runtime"
	"sync"
)

// A step of a move reads and writes the bytes of its files by a few workers beside one another: those of one file depend on
// no other's, and a death finds some of them done, as it does anyway. Everything else of a step has its order: records,
// names, attributes. Workers get open descriptors, and look for nothing.

const (
	// maxWorkers bounds them: it is the disk and the processors that are shared, with programs that work meanwhile.
	maxWorkers = 4
	// workerBatch is how many files are given to a worker at a time: of small ones, to hand one over takes as long as to do it.
	workerBatch = 8
)

// workers does things beside one another. Its methods are called by one goroutine.
type workers struct {
	most    int // 1: the caller does it
	each    int // so many at a time
	jobs    chan []func() error
	batch   []func() error
	running sync.WaitGroup

	mu  sync.Mutex
	err error // +checklocks:mu the first one
}

// newWorkers makes workers for up to n things; wait must follow. Where few would be of use, the caller is the only one.
func (e *Engine) newWorkers(n int) *workers {
	if e.opt.workers > 0 {
		return &workers{most: e.opt.workers, each: 1}
	}
	return &workers{most: min(runtime.NumCPU(), maxWorkers, n/workerBatch), each: workerBatch}
}

// do has something done, now or later. After an error nothing more is begun.
func (w *workers) do(f func() error) {
	if w.most < 2 {
		w.run(f)
		return
	}
	if w.batch = append(w.batch, f); len(w.batch) == w.each {
		w.send()
	}
}

func (w *workers) send() {
	if w.jobs == nil {
		w.jobs = make(chan []func() error, w.most)
		for range w.most {
			w.running.Go(func() {
				for batch := range w.jobs {
					for _, f := range batch {
						w.run(f)
					}
				}
			})
		}
	}
	w.jobs <- w.batch
	w.batch = nil
}

func (w *workers) run(f func() error) {
	if w.failed() != nil {
		return
	}
	if err := f(); err != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.err == nil {
			w.err = err
		}
	}
}

func (w *workers) failed() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// wait is until all that was begun is done, and gives the first error. It may be called again.
func (w *workers) wait() error {
	if w.jobs == nil {
		for _, f := range w.batch {
			w.run(f)
		}
	} else {
		if len(w.batch) > 0 {
			w.send()
		}
		close(w.jobs)
		w.running.Wait()
		w.jobs = nil
	}
	w.batch = nil
	return w.failed()
}

// drop is wait for who gives up: what was not begun is not done.
func (w *workers) drop() {
	w.batch = nil
	_ = w.wait()
}
