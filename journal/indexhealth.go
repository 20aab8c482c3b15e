package journal

import (
	"errors"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// pebbleLog hears pebble's messages.
type pebbleLog struct{ x *index }

func (l pebbleLog) Infof(string, ...any) {}

func (l pebbleLog) Errorf(format string, args ...any) {
	l.x.log.Warn("journal: index", "message", fmt.Sprintf(format, args...))
}

// Fatalf is called when pebble does not know what is on the disk (a failed write of its manifest). The contract is that it
// does not return: when it does, pebble goes on with a state in memory that is not sound, reports success or panics in a goroutine
// of its own. Ending the process is not a library's to decide, and the journal can do without the index: commits go to the segments. So the index
// is marked dead and the goroutine, which holds pebble's main lock, stays here for ever; readers do not need that lock.
func (l pebbleLog) Fatalf(format string, args ...any) {
	l.x.kill(fmt.Errorf(format, args...))
	select {}
}

// indexFS is the filesystem as pebble gets it: the journal's own lock guards the index, too, and a dead index creates no more
// files, which might get in the way of another Open in this process.
type indexFS struct {
	vfs.FS
	x *index
}

func (*indexFS) Lock(string) (io.Closer, error) { return io.NopCloser(nil), nil }
func (f *indexFS) Unwrap() vfs.FS               { return f.FS }

func (f *indexFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if dead, _, _ := f.x.health(); dead != nil {
		select {}
	}
	return f.FS.Create(name, c)
}

// open opens pebble.
func (x *index) open(o *pebble.Options) error {
	var db *pebble.DB
	err := x.guard(func() (err error) {
		db, err = pebble.Open(x.dir, o)
		return err
	})
	if err == nil {
		x.db = db
	}
	return err
}

// done lets go of what Get has returned, unless the index is dead: that might wait for ever.
func (x *index) done(c io.Closer) error {
	if dead, _, _ := x.health(); dead != nil {
		return nil
	}
	return c.Close()
}

// drop closes an iterator or pebble itself, and leaves it behind when the index is dead or dies meanwhile.
func (x *index) drop(c io.Closer) error {
	err := x.guard(c.Close)
	if errors.Is(err, errIndexDead) {
		return nil
	}
	return err
}

// dropLater is drop for an iterator, and waits for nothing: who reads much would wait for another goroutine each time.
func (x *index) dropLater(it io.Closer) {
	x.closers.Add(1)
	select {
	case x.closing <- it:
	default:
		_ = x.drop(it)
		x.closers.Done()
	}
}

// closeIterators closes what dropLater was given, until the index is closed. When the index dies it may stay where it is.
func (x *index) closeIterators() {
	for it := range x.closing {
		_ = it.Close()
		x.closers.Done()
	}
}

func (x *index) kill(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.dead == nil {
		x.dead = errors.Join(errIndexDead, err)
	}
	x.signal(x.dead)
}

func (x *index) backgroundError(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.signal(err)
}

// signal needs mu.
func (x *index) signal(err error) {
	x.lastErr = err
	close(x.failed)
	x.failed = make(chan struct{})
}

// health returns why the index is dead, the channel that the next error closes, and the last error.
func (x *index) health() (dead error, failed <-chan struct{}, last error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.dead, x.failed, x.lastErr
}

// flush makes all that was applied durable. After an error pebble goes on trying by itself; flush may be called again.
func (x *index) flush() error {
	dead, failed, _ := x.health()
	if dead != nil {
		return dead
	}
	var done <-chan struct{}
	err := x.guard(func() (err error) {
		done, err = x.db.AsyncFlush()
		return err
	})
	if err != nil {
		return err
	}
	select {
	case <-done:
	case <-failed:
		_, _, last := x.health()
		return last
	}
	dead, _, _ = x.health()
	return dead
}

// guard runs fn, which needs pebble's main lock, in a goroutine that is left behind when the index dies.
func (x *index) guard(fn func() error) error {
	if dead, _, _ := x.health(); dead != nil {
		return dead
	}
	result := make(chan error, 1)
	go func() { result <- fn() }()
	for {
		dead, failed, _ := x.health()
		if dead != nil {
			return dead
		}
		select {
		case err := <-result:
			return err
		case <-failed:
		}
	}
}
