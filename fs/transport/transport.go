package transport

import (
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// Kind is a way on which requests come.
type Kind string

// The kinds. Auto is Uring where it works, else Classic.
const (
	Auto    Kind = "auto"
	Classic Kind = "classic"
	Uring   Kind = "uring"
)

// Options are those of a mount.
type Options struct {
	// Dir is where to mount, absolute; Source and Type are what mount(8) shows, the latter behind "fuse.".
	Dir, Source, Type string
	// FS answers.
	FS fuse.RawFileSystem
	// Kind is how; "" is Auto.
	Kind Kind
	// Privileged: by mount(2), as root; else, and if that is not allowed, by fusermount3.
	Privileged bool
	// AllowOther lets other users in.
	AllowOther bool
	// MaxWrite is the most that a request can carry, in bytes.
	MaxWrite int
	// MaxBackground is how many requests nobody waits for may be on their way.
	MaxBackground int
	// Capabilities are asked for beside those that go-fuse asks for.
	Capabilities uint64
	// SymlinkCaching lets the kernel keep the targets of symbolic links.
	SymlinkCaching bool
	// Slow says whether a request may compute for long. Its thread is then let off its CPU; nil: none does.
	Slow func(*fuse.InHeader) bool
	// Legacy is a connection to go on with instead of mounting; nil: none.
	Legacy *Legacy
	// Ledger is memory that outlives the process, for notes of requests; empty: none are taken. Round is which daemon of the mount this is.
	Ledger []byte
	Round  uint32
	Logger *slog.Logger

	// cpus is for tests, which pretend that some come later; nil: those that there are.
	cpus func() (possible int, online []bool, err error)
}

// Conn is a mounted filesystem.
type Conn struct {
	o       Options
	dev     *device
	server  *fuse.ProtocolServer
	granted uint64
	why     error // why it is classic
	onRings atomic.Bool
	slots   slots
	rings   *rings
	readers *readers
	tellers *tellers
	ledger  *ledger
	// greeting is the kernel's INIT; resend: a daemon before this one may have left requests.
	greeting []byte
	resend   bool

	dead   sync.Once
	asides sync.WaitGroup // goroutines that cancel
	done   chan struct{}
}

// Mount mounts and agrees with the kernel on how to talk. No request is handled before Start. Errors: what the kernel or
// fusermount3 says; for Kind Uring also why it cannot be.
func Mount(o Options) (c *Conn, err error) {
	if o.Kind == "" {
		o.Kind = Auto
	}
	switch o.Kind {
	case Auto, Classic:
	case Uring:
		if o.Legacy != nil {
			return nil, notByRing(errors.New("the mount was gone on with"))
		}
		if err := errors.Join(Offered(), TryRing()); err != nil {
			return nil, notByRing(err)
		}
	default:
		return nil, fmt.Errorf("the transport is %s, %s or %s, not %q", Auto, Classic, Uring, o.Kind)
	}
	c = &Conn{o: o, done: make(chan struct{}), ledger: newLedger(o.Ledger, o.Round)}
	capabilities := o.Capabilities
	if o.Kind != Classic {
		capabilities |= fuse.CAP_OVER_IO_URING
	} else {
		c.why = errors.New("it was asked for")
	}
	c.server = fuse.NewProtocolServer(o.FS, &fuse.MountOptions{
		Name: o.Type, MaxWrite: o.MaxWrite, MaxBackground: o.MaxBackground, MaxStackDepth: 1, EnableAcl: true,
		EnableSymlinkCaching: o.SymlinkCaching, ExtraCapabilities: capabilities, Logger: log.New(logWriter{o.Logger}, "", 0),
	})
	fd, err := -1, error(nil)
	if o.Legacy != nil {
		fd, err = o.Legacy.FD, c.adopt(o.Legacy)
	} else {
		fd, err = mount(&o)
	}
	if err != nil {
		return nil, err
	}
	if c.dev, err = newDevice(fd); err != nil {
		unix.Close(fd)
		return nil, errors.Join(err, c.Unmount(true))
	}
	c.tellers = newTellers(fd)
	c.readers = &readers{c: c, fd: fd, size: requestSize(o.MaxWrite)}
	if o.Legacy != nil {
		return c, nil
	}
	if err := c.agree(fd); err != nil {
		return nil, errors.Join(err, c.abandon())
	}
	return c, nil
}

// notByRing is the refusal of a mount that insists on io_uring.
func notByRing(why error) error {
	return fmt.Errorf("io_uring cannot be used: %w; or mount with --transport auto", why)
}

// abandon ends a connection that never served.
func (c *Conn) abandon() error {
	c.tellers.end()
	if c.rings != nil {
		c.rings.end()
	}
	return errors.Join(c.Unmount(true), c.dev.close())
}

// requestSize is the size of the largest request and of the largest answer. Source: fuse_dev_do_read.
func requestSize(maxWrite int) int {
	return max(maxWrite, 8192) + os.Getpagesize()
}

// agree answers INIT, the first request, which says what the kernel can and takes what is wanted. The rings are there
// before the answer is: it makes every request wait for them.
func (c *Conn) agree(fd int) error {
	b := make([]byte, requestSize(c.o.MaxWrite))
	n, err := readFrom(fd, b)
	if err != nil {
		return fmt.Errorf("the kernel's greeting: %w", err)
	}
	if op := inHeader(b).Opcode; op != opInit {
		return fmt.Errorf("the kernel's greeting is %s", opName(op))
	}
	c.greeting = append([]byte(nil), b[:n]...)
	answer := make([]byte, outHeaderSize+int(unsafe.Sizeof(fuse.InitOut{})))
	n, status := c.server.HandleRequest([][]byte{b[:n]}, [][]byte{answer})
	if n < len(answer) {
		return fmt.Errorf("answer the kernel's greeting: %v: %w", status, unix.EPROTO)
	}
	out := (*fuse.InitOut)(unsafe.Pointer(&answer[outHeaderSize]))
	if out.Flags64()&fuse.CAP_OVER_IO_URING != 0 {
		payload := max(8192, int(out.MaxWrite), int(out.MaxPages)*os.Getpagesize())
		if c.rings, c.why = newRings(c, fd, payload); c.why != nil {
			out.Flags2 &^= uint32(uint64(fuse.CAP_OVER_IO_URING) >> 32)
		}
	} else if c.why == nil {
		if c.why = Offered(); c.why == nil {
			c.why = errors.New("the kernel does not offer it")
		}
	}
	if c.rings == nil && c.o.Kind == Uring {
		return notByRing(c.why)
	}
	c.granted = out.Flags64()
	if err := writeTo(fd, answer); err != nil {
		return fmt.Errorf("answer the kernel's greeting: %w", err)
	}
	return nil
}

// Has says whether the kernel has agreed to a capability.
func (c *Conn) Has(capability uint64) bool { return c.granted&capability == capability }

// Kind is how requests come. It is settled by Start.
func (c *Conn) Kind() Kind {
	if c.onRings.Load() {
		return Uring
	}
	return Classic
}

// Why is why requests do not come by io_uring; nil when they do. Preconditions: Start has returned.
func (c *Conn) Why() error { return c.why }

// Requests is the number of requests so far, by operation.
func (c *Conn) Requests() map[string]uint64 { return c.slots.counts() }

// Threads is how many threads the rings have.
func (c *Conn) Threads() int {
	if c.rings == nil {
		return 0
	}
	return c.rings.threadCount()
}

// Start begins to serve. Errors: for Kind Uring, why it cannot be; then nothing is mounted any more.
func (c *Conn) Start() error {
	if c.rings != nil {
		if err := c.rings.register(); err != nil {
			c.why = err
			if c.o.Kind == Uring {
				close(c.done)
				return errors.Join(notByRing(err), c.abandon())
			}
			c.o.Logger.Warn("requests come the classic way", "why", err)
		} else {
			c.onRings.Store(true)
		}
	}
	if c.resend {
		// Before anything is read: what this process has in hand would come a second time.
		if err := c.sendAgain(); err != nil && err != unix.ENODEV {
			close(c.done)
			return errors.Join(fmt.Errorf("have the kernel send again what was not answered: %w", err), c.abandon())
		}
		c.askAgain()
	}
	c.readers.start()
	go c.finish()
	return nil
}

// died is called when the kernel has ended the connection.
func (c *Conn) died() { c.dead.Do(c.cancelAll) }

// finish waits for the end of everything.
func (c *Conn) finish() {
	c.readers.close()
	if c.rings != nil {
		c.rings.end()
	}
	c.tellers.end()
	c.asides.Wait()
	if err := c.dev.close(); err != nil {
		c.o.Logger.Warn("close /dev/fuse", "err", err)
	}
	c.o.FS.OnUnmount()
	close(c.done)
}

// Wait returns when the mount is gone and nothing is handled any more.
func (c *Conn) Wait() { <-c.done }

// logWriter gives go-fuse's own lines to the log.
type logWriter struct{ l *slog.Logger }

// Write is one line.
func (w logWriter) Write(b []byte) (int, error) {
	w.l.Warn(string(b), "from", "go-fuse")
	return len(b), nil
}
