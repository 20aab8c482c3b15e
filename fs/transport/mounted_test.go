package transport

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// blocks is a filesystem whose files do something when they are opened.
type blocks struct {
	fuse.RawFileSystem
	dir     string
	gate    chan struct{}
	waiting atomic.Int32
	ended   atomic.Bool
	once    sync.Once
}

// free lets all go that wait.
func (b *blocks) free() { b.once.Do(func() { close(b.gate) }) }

const (
	nodeWait  = 2 // waits until free is opened, or it is interrupted
	nodeFree  = 3
	nodePanic = 4
	nodeSelf  = 5 // looks at the mount itself
	nodeData  = 6 // 256 KiB
)

var nodes = map[string]uint64{"wait": nodeWait, "free": nodeFree, "panic": nodePanic, "self": nodeSelf, "data": nodeData}

const dataSize = 256 << 10

func (b *blocks) attr(node uint64, out *fuse.Attr) {
	out.Ino, out.Mode, out.Nlink, out.Owner = node, unix.S_IFREG|0o644, 1, *fuse.CurrentOwner()
	if node == fuse.FUSE_ROOT_ID {
		out.Mode = unix.S_IFDIR | 0o755
	}
	if node == nodeData {
		out.Size = dataSize
	}
}

func (b *blocks) Lookup(_ <-chan struct{}, _ *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	if name == "stuck" {
		b.waiting.Add(1)
		defer b.waiting.Add(-1)
		<-b.gate
	}
	id := nodes[name]
	if id == 0 {
		return fuse.ENOENT
	}
	out.NodeId, out.Generation = id, 1
	b.attr(id, &out.Attr)
	return fuse.OK
}

func (b *blocks) GetAttr(_ <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	b.attr(in.NodeId, &out.Attr)
	return fuse.OK
}

func (b *blocks) Open(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	out.OpenFlags = fuse.FOPEN_DIRECT_IO | fuse.FOPEN_NOFLUSH
	switch in.NodeId {
	case nodeWait:
		b.waiting.Add(1)
		defer b.waiting.Add(-1)
		select {
		case <-b.gate:
		case <-cancel:
			return fuse.EINTR
		}
	case nodeFree:
		b.free()
	case nodePanic:
		panic("on purpose")
	case nodeSelf:
		var st unix.Stat_t
		return fuse.ToStatus(unix.Stat(filepath.Join(b.dir, "data"), &st))
	}
	return fuse.OK
}

func pattern(off int64) byte { return byte(off*7 + off>>9) }

func (b *blocks) Read(_ <-chan struct{}, in *fuse.ReadIn, buf []byte) (fuse.ReadResult, fuse.Status) {
	n := 0
	for ; n < len(buf) && int64(in.Offset)+int64(n) < dataSize; n++ {
		buf[n] = pattern(int64(in.Offset) + int64(n))
	}
	return fuse.ReadResultData(buf[:n]), fuse.OK
}

func (b *blocks) Write(_ <-chan struct{}, in *fuse.WriteIn, data []byte) (uint32, fuse.Status) {
	for i, c := range data {
		if c != pattern(int64(in.Offset)+int64(i)) {
			return 0, fuse.Status(unix.EBADMSG)
		}
	}
	return uint32(len(data)), fuse.OK
}

func (b *blocks) OnUnmount() { b.ended.Store(true) }

// mounted mounts blocks, or says why this machine cannot.
func mounted(t *testing.T, kind Kind) (*Conn, *blocks, error) { return mountedOn(t, kind, nil) }

// mountedOn is mounted where it seems that there are other CPUs.
func mountedOn(t *testing.T, kind Kind, cpus func() (int, []bool, error)) (*Conn, *blocks, error) {
	t.Helper()
	b := &blocks{RawFileSystem: fuse.NewDefaultRawFileSystem(), dir: t.TempDir(), gate: make(chan struct{})}
	var log bytes.Buffer
	c, err := Mount(Options{Dir: b.dir, Source: "blocks", Type: "blocks", FS: b, Kind: kind, Privileged: os.Geteuid() == 0, MaxWrite: 1 << 20, MaxBackground: 12,
		Capabilities: fuse.CAP_NO_EXPORT_SUPPORT, Slow: func(h *fuse.InHeader) bool { return h.NodeId == nodeData }, Logger: slog.New(slog.NewTextHandler(&log, nil)), cpus: cpus})
	if err != nil {
		return nil, nil, err
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return c, b, nil
}

func (b *blocks) open(name string) error {
	fd, err := unix.Open(filepath.Join(b.dir, name), unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err == nil {
		unix.Close(fd)
	}
	return err
}

// over runs a test over each transport that works here. What does not is checked to be refused, and told why.
func over(t *testing.T, f func(t *testing.T, c *Conn, b *blocks)) {
	for _, kind := range []Kind{Classic, Uring} {
		t.Run(string(kind), func(t *testing.T) {
			if kind == Uring && os.Geteuid() == 0 {
				_ = os.WriteFile(EnableFile, []byte("Y"), 0) // where this is not allowed, the refusal is tested
			}
			c, b, err := mounted(t, kind)
			if err != nil {
				if kind == Uring && Offered() == nil && TryRing() == nil {
					t.Fatalf("io_uring is offered and rings can be made, but: %v", err)
				}
				if rest := mountsBelow(t); len(rest) > 0 {
					t.Errorf("%v leaves %v", err, rest)
				}
				return
			}
			if c.Kind() != kind || (c.Why() == nil) != (kind == Uring) {
				t.Errorf("%s is %s, %v", kind, c.Kind(), c.Why())
			}
			defer func() {
				b.free() // who waits still, after a failure, would keep the mount
				if err := c.Unmount(true); err != nil && !errors.Is(err, unix.EINVAL) {
					t.Error(err)
				}
				c.Wait()
				if !b.ended.Load() {
					t.Error("the filesystem does not know of its end")
				}
			}()
			f(t, c, b)
		})
	}
}

// mountsBelow are the mounts that this test has left.
func mountsBelow(t *testing.T) (found []string) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, "fuse.blocks") && strings.Contains(line, filepath.Dir(t.TempDir())) {
			found = append(found, line)
		}
	}
	return found
}

// eventually polls.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited 30 seconds until %s", what)
		}
	}
}

// TestHandlersWaitForEachOther: 40 callers on each CPU wait in a handler for one more request of the same CPU.
func TestHandlersWaitForEachOther(t *testing.T) {
	over(t, func(t *testing.T, c *Conn, b *blocks) {
		const callers = 40
		var wg sync.WaitGroup
		for cpu := range runtime.NumCPU() {
			for range callers {
				wg.Go(func() { onCPU(t, cpu, func() error { return b.open("wait") }) })
			}
		}
		eventually(t, "all wait", func() bool { return b.waiting.Load() == int32(callers*runtime.NumCPU()) })
		onCPU(t, 0, func() error { return b.open("free") })
		wg.Wait()
	})
}

// onCPU runs f on a CPU, if this process may use it.
func onCPU(t *testing.T, cpu int, f func() error) {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		pin(cpu)
		done <- f()
	}()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestInterrupt: a caller that is killed does not wait for its handler.
func TestInterrupt(t *testing.T) {
	over(t, func(t *testing.T, c *Conn, b *blocks) {
		p, err := os.StartProcess("/bin/sh", []string{"sh", "-c", "exec 3<>'" + b.dir + "/wait'"}, &os.ProcAttr{})
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "it waits", func() bool { return b.waiting.Load() == 1 })
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
		if st, err := p.Wait(); err != nil || st.Success() {
			t.Errorf("%v %v", st, err)
		}
		eventually(t, "the handler is cancelled", func() bool { return b.waiting.Load() == 0 })
	})
}

// TestPanic: a handler that panics is an error to its caller, and the next one is served.
func TestPanic(t *testing.T) {
	over(t, func(t *testing.T, c *Conn, b *blocks) {
		for range 20 {
			if err := b.open("panic"); err != unix.EIO {
				t.Errorf("a panic is %v", err)
			}
		}
		if err := b.open("data"); err != nil {
			t.Error(err)
		}
	})
}

// TestOwnMount: a handler that reaches its own mount is served, many at once.
func TestOwnMount(t *testing.T) {
	over(t, func(t *testing.T, c *Conn, b *blocks) {
		var wg sync.WaitGroup
		for cpu := range runtime.NumCPU() {
			for range 10 {
				wg.Go(func() { onCPU(t, cpu, func() error { return b.open("self") }) })
			}
		}
		wg.Wait()
	})
}

// TestData: what is read and written arrives whole, in any size.
func TestData(t *testing.T) {
	over(t, func(t *testing.T, c *Conn, b *blocks) {
		fd, err := unix.Open(filepath.Join(b.dir, "data"), unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		var wg sync.WaitGroup
		for _, size := range []int{1, 100, 4096, 65537, dataSize} {
			wg.Go(func() {
				buf := make([]byte, size)
				for _, off := range []int64{0, 1, 4095, 100_000} {
					n, err := unix.Pread(fd, buf, off)
					if want := min(int64(size), dataSize-off); err != nil || int64(n) != want {
						t.Errorf("read %d at %d: %d, %v", size, off, n, err)
					}
					for i := range n {
						if buf[i] != pattern(off+int64(i)) {
							t.Errorf("read %d at %d: byte %d is wrong", size, off, i)
							break
						}
					}
					if n, err = unix.Pwrite(fd, buf[:n], off); err != nil {
						t.Errorf("write %d at %d: %d, %v", size, off, n, err)
					}
				}
			})
		}
		wg.Wait()
		if counts := c.Requests(); counts["read"] < 20 || counts["write"] < 20 || counts["open"] != 1 || counts["init"] != 0 {
			t.Errorf("counted %v", counts)
		}
	})
}

// TestAbortUnderLoad: a connection that is aborted lets go of everybody, running handlers too.
func TestAbortUnderLoad(t *testing.T) {
	over(t, func(t *testing.T, c *Conn, b *blocks) {
		var wg sync.WaitGroup
		var stop atomic.Bool
		for range 4 {
			wg.Go(func() {
				for !stop.Load() {
					_ = b.open("data")
				}
			})
			wg.Go(func() { _ = b.open("wait") })
		}
		eventually(t, "they wait", func() bool { return b.waiting.Load() == 4 })
		var st unix.Stat_t
		if err := unix.Stat(b.dir, &st); err != nil {
			t.Fatal(err)
		}
		abort := fmt.Sprintf("/sys/fs/fuse/connections/%d/abort", unix.Minor(st.Dev))
		if err := os.WriteFile(abort, []byte("1"), 0); err != nil {
			if err := c.Unmount(true); err != nil { // fusectl is not mounted: the end of the device is the same to it
				t.Fatal(err)
			}
			b.free()
		}
		stop.Store(true)
		wg.Wait()
		c.Wait()
		if b.waiting.Load() != 0 {
			t.Error("a handler still waits")
		}
	})
}
