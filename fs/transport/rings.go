package transport

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxThreads bounds the threads of a queue: callers on one CPU that wait for one another.
	maxThreads = 64
	// stopGrace is how long the kernel may take to end the entries of a connection that is gone.
	stopGrace = 2 * time.Second
)

// crew is the number of threads with which each queue starts, one to serve and the others to stand by, and how many are to
// stand by from then on: one more is started when there are fewer. Where there are many CPUs, requests spread.
func crew(cpus int) (first, spare int32) {
	switch {
	case cpus <= 16:
		return 3, 2
	case cpus <= 64:
		return 2, 1
	}
	return 1, 1
}

// room says whether the rings may have as many descriptors: a quarter of the process's.
func room(rings int, limit uint64) error {
	if uint64(rings) > limit/4 {
		return fmt.Errorf("its %d rings would take too many of the %d descriptors that this process may have (ulimit -n)", rings, limit)
	}
	return nil
}

// queue is one of the kernel's.
type queue struct {
	id uint16
	// idle is the entries that wait for a request.
	idle    atomic.Int32
	growing atomic.Bool

	mu      sync.Mutex
	threads int // +checklocks:mu that are pinned to the queue's CPU
	failed  bool
}

// rings is the io_uring side of a connection.
type rings struct {
	c       *Conn
	dev     int // its descriptor, open as long as there are threads
	payload int // size of an entry's
	spare   int32
	queues  []*queue
	first   []*thread
	stop    int // an eventfd: every thread ends when it is written to
	grow    chan *queue
	done    chan struct{}
	growers sync.WaitGroup
	threads sync.WaitGroup
	kicks   kicks
	// up: requests come by the rings.
	up bool
}

// newRings makes and tries the rings of a connection; nothing is registered yet. Errors: what forbids them; nothing is
// left of them then.
func newRings(c *Conn, dev, payload int) (*rings, error) {
	count := cpus
	if c.o.cpus != nil {
		count = c.o.cpus
	}
	possible, online, err := count()
	if err != nil {
		return nil, err
	}
	first, spare := crew(possible)
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return nil, fmt.Errorf("getrlimit: %w", err)
	}
	if err := room(possible*int(first), files.Cur); err != nil {
		return nil, err
	}
	r := &rings{c: c, dev: dev, payload: payload, spare: spare, stop: -1, grow: make(chan *queue, possible), done: make(chan struct{})}
	if r.stop, err = unix.Eventfd(0, unix.EFD_CLOEXEC); err != nil {
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	var strays []*queue
	for id := range possible {
		q := &queue{id: uint16(id)}
		r.queues = append(r.queues, q)
		if !online[id] {
			strays = append(strays, q)
			continue
		}
		q.threads = int(first)
		for range first {
			r.first = append(r.first, r.start(id, q))
		}
	}
	if len(strays) > 0 {
		r.first = append(r.first, r.start(noCPU, strays...))
	}
	for _, t := range r.first {
		err = errors.Join(err, <-t.made)
	}
	if err != nil {
		r.end()
		return nil, err
	}
	return r, nil
}

// start starts a thread with one entry in each of the queues.
func (r *rings) start(cpu int, queues ...*queue) *thread {
	t := &thread{r: r, cpu: cpu, made: make(chan error, 1), begin: make(chan bool, 1), registered: make(chan error, 1)}
	for _, q := range queues {
		t.entries = append(t.entries, &entry{q: q})
	}
	r.threads.Add(1)
	go t.run()
	return t
}

// register offers all entries to the kernel, which has been told of io_uring. Errors: of the first registration that
// failed; the kernel then serves the connection the classic way.
func (r *rings) register() error {
	for _, t := range r.first {
		t.begin <- true
	}
	var err error
	for _, t := range r.first {
		err = errors.Join(err, <-t.registered)
	}
	if err == nil {
		r.up = true
		r.growers.Go(r.growAll)
	}
	return err
}

// want asks for one more thread of a queue.
func (r *rings) want(q *queue) {
	if q.growing.CompareAndSwap(false, true) {
		r.grow <- q // as many as there are queues fit
	}
}

func (r *rings) growAll() {
	for {
		select {
		case <-r.done:
			return
		case q := <-r.grow:
			err := r.growOne(q)
			q.growing.Store(false)
			switch {
			case err != nil && !q.failed:
				q.failed = true
				r.c.o.Logger.Warn("no further thread for requests of a CPU: some may wait for each other", "cpu", q.id, "err", err)
			case err == nil:
				r.kick(int(q.id))
				if q.idle.Load() < r.spare {
					r.want(q)
				}
			}
		}
	}
}

var errTooManyThreads = errors.New("there are too many already")

func (r *rings) growOne(q *queue) error {
	q.mu.Lock()
	if q.threads >= maxThreads {
		q.mu.Unlock()
		return errTooManyThreads
	}
	q.threads++
	q.mu.Unlock()
	t := r.start(int(q.id), q)
	err := <-t.made
	t.begin <- err == nil
	if err == nil {
		err = <-t.registered
	}
	if err != nil {
		q.mu.Lock()
		q.threads--
		q.mu.Unlock()
	}
	return err
}

// threadCount is how many threads serve.
func (r *rings) threadCount() (n int) {
	for _, q := range r.queues {
		q.mu.Lock()
		n += q.threads
		q.mu.Unlock()
	}
	return n
}

// end waits for the threads, whose entries the kernel ends with the connection, and has those end that it forgot.
func (r *rings) end() {
	close(r.done)
	r.growers.Wait()
	for _, t := range r.first {
		t.begin <- false // who has begun does not look again
	}
	gone := make(chan struct{})
	go func() { r.threads.Wait(); close(gone) }()
	grace := time.NewTimer(stopGrace)
	defer grace.Stop()
	if r.up {
		select {
		case <-gone:
		case <-grace.C:
		}
	}
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	_, _ = unix.Write(r.stop, one[:]) // it has room for it
	<-gone
	unix.Close(r.stop)
}
