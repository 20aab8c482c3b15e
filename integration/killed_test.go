package integration

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ttfs/ttfs/integration/rig"
	"golang.org/x/sys/unix"
)

// deaths is how many daemons a test kills.
func deaths() int {
	if os.Getenv("TTFS_NIGHTLY") != "" {
		return 500
	}
	return 25
}

// TestDaemonKilledWhileProgramsWork: the daemon is killed again and again while programs make, write, append to, map, list and
// remove files. None of them sees an error, all bytes are right, and the task that they worked in is undone and redone exactly.
func TestDaemonKilledWhileProgramsWork(t *testing.T) {
	w := rig.NewMounted(t, "--transport", "classic")
	w.Sh(`mkdir work; printf before >work/old; ln work/old work/second`).OK()
	before := w.Snapshot()
	w.TTFS("task", "killed").OK()
	ctx, stop := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for name, work := range workers {
		dir := w.Path("work/" + name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			if n, err := work(ctx, dir); err != nil {
				t.Errorf("%s, round %d: %v", name, n, err)
				stop()
			} else if n == 0 {
				t.Errorf("%s did nothing", name)
			}
		})
	}
	random := rand.New(rand.NewPCG(1, uint64(time.Now().UnixNano())))
	for range deaths() {
		pause := time.NewTimer(time.Duration(random.IntN(250)) * time.Millisecond) // an instant of no choice of ours
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
		w.KillDaemon()
	}
	stop()
	all.Wait()
	after := w.Snapshot()
	w.TTFS("undo").OK()
	w.Same("after undo", before)
	w.TTFS("redo").OK()
	w.Same("after redo", after)
	w.Unmount()
	w.TTFSIn("/", "-w", w.Dir, "fsck").OK()
}

// workers each do one thing until they are told to stop, and say how often they did it.
var workers = map[string]func(ctx context.Context, dir string) (int, error){
	"files":  makeFiles,
	"append": appendLines,
	"names":  makeNames,
	"gone":   useRemoved,
	"map":    useMapping,
	"list":   listNames,
	"locked": holdLock,
}

func makeFiles(ctx context.Context, dir string) (n int, err error) {
	random := rand.New(rand.NewPCG(2, 3))
	for ; ctx.Err() == nil; n++ {
		b := make([]byte, 1+random.IntN(150_000))
		for i := range b {
			b[i] = byte(random.Uint32())
		}
		p := filepath.Join(dir, fmt.Sprintf("f%d", n%20))
		if err := os.WriteFile(p+".new", b, 0o644); err != nil {
			return n, err
		}
		if err := os.Rename(p+".new", p); err != nil {
			return n, err
		}
		got, err := os.ReadFile(p)
		if err != nil {
			return n, err
		}
		if sha256.Sum256(got) != sha256.Sum256(b) {
			return n, fmt.Errorf("%s holds other bytes than were written", p)
		}
	}
	return n, nil
}

// appendLines appends through a descriptor that stays open, and through one for each line; another descriptor follows.
func appendLines(ctx context.Context, dir string) (n int, err error) {
	p := filepath.Join(dir, "lines")
	f, err := os.OpenFile(p, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	r, err := os.Open(p)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	var want, got bytes.Buffer
	for ; ctx.Err() == nil; n++ {
		line := fmt.Sprintf("line %d\n", n)
		want.WriteString(line)
		if n%2 == 0 {
			_, err = f.WriteString(line)
		} else {
			var g *os.File
			if g, err = os.OpenFile(p, os.O_WRONLY|os.O_APPEND, 0); err == nil {
				_, err = g.WriteString(line)
				err = firstError(err, g.Close())
			}
		}
		if err != nil {
			return n, err
		}
		if _, err := io.Copy(&got, r); err != nil {
			return n, err
		}
		if got.Len() != want.Len() {
			return n, fmt.Errorf("who follows has %d bytes of %d", got.Len(), want.Len())
		}
	}
	if !bytes.Equal(got.Bytes(), want.Bytes()) {
		return n, fmt.Errorf("the lines are others than were written")
	}
	return n, nil
}

func firstError(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// makeNames does each operation that cannot be done twice: a second time it would fail, or take back the first.
func makeNames(ctx context.Context, dir string) (n int, err error) {
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	for ; ctx.Err() == nil; n++ {
		for _, step := range []func() error{
			func() error {
				f, err := os.OpenFile(a, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
				if err != nil {
					return err
				}
				return f.Close()
			},
			func() error { return unix.Setxattr(a, "user.one", []byte("1"), unix.XATTR_CREATE) },
			func() error { return unix.Removexattr(a, "user.one") },
			func() error { return os.Link(a, b) },
			func() error { return os.Remove(b) },
			func() error { return os.Mkdir(b, 0o700) },
			func() error { return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE) },
			func() error { return os.Remove(a) },
			func() error { return os.Symlink("nowhere", a) },
			func() error { return os.Rename(a, b) },
			func() error { return os.Remove(b) },
			func() error { return unix.Mknod(a, unix.S_IFIFO|0o600, 0) },
			func() error { return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_WHITEOUT) },
			func() error { return os.Remove(a) },
			func() error {
				if st, err := os.Lstat(b); err != nil {
					return err
				} else if st.Mode().Type() != os.ModeNamedPipe {
					return fmt.Errorf("a fifo that left a whiteout is now %v", st.Mode())
				}
				return os.Remove(b)
			},
		} {
			if err := step(); err != nil {
				return n, err
			}
		}
		st, err := os.ReadDir(dir)
		if err != nil || len(st) != 0 {
			return n, fmt.Errorf("%v is left: %v", st, err)
		}
	}
	return n, nil
}

// useRemoved goes on with a file whose name is removed while it is open, and with one that never had a name.
func useRemoved(ctx context.Context, dir string) (n int, err error) {
	for ; ctx.Err() == nil; n++ {
		f, err := os.OpenFile(filepath.Join(dir, "gone"), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return n, err
		}
		if err := os.Remove(f.Name()); err != nil {
			return n, err
		}
		fd, err := unix.Open(dir, unix.O_RDWR|unix.O_TMPFILE|unix.O_CLOEXEC, 0o600)
		if err != nil {
			return n, err
		}
		for _, f := range []*os.File{f, os.NewFile(uintptr(fd), "no name")} {
			for i := range 50 {
				if _, err := f.WriteAt([]byte{byte(i)}, int64(i)); err != nil {
					return n, err
				}
				if st, err := f.Stat(); err != nil || st.Size() != int64(i)+1 {
					return n, fmt.Errorf("%s: %d bytes written, %v, %v", f.Name(), i+1, st, err)
				}
			}
			if err := firstError(f.Chmod(0o640), f.Close()); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

func useMapping(ctx context.Context, dir string) (n int, err error) {
	p := filepath.Join(dir, "mapped")
	if err := os.WriteFile(p, make([]byte, 8192), 0o644); err != nil {
		return 0, err
	}
	f, err := os.OpenFile(p, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	m, err := unix.Mmap(int(f.Fd()), 0, 8192, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err = firstError(err, f.Close()); err != nil {
		return 0, err
	}
	defer func() { _ = unix.Munmap(m) }()
	for ; ctx.Err() == nil; n++ {
		text := fmt.Sprintf("%08d", n)
		copy(m[4000:], text)
		got, err := os.ReadFile(p)
		if err != nil || len(got) != 8192 || string(got[4000:4008]) != text {
			return n, fmt.Errorf("the file does not show what the mapping has: %w", err)
		}
	}
	return n, nil
}

// listNames reads a directory in small pieces, so that daemons die between them.
func listNames(ctx context.Context, dir string) (n int, err error) {
	const names = 600
	long := strings.Repeat("long", 30)
	for i := range names {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s%d", long, i)), nil, 0o644); err != nil {
			return 0, err
		}
	}
	for ; ctx.Err() == nil; n++ {
		d, err := os.Open(dir)
		if err != nil {
			return n, err
		}
		seen := map[string]bool{}
		for {
			some, err := d.Readdirnames(50)
			for _, name := range some {
				seen[name] = true
			}
			if err == io.EOF {
				break
			}
			if err != nil {
				return n, err
			}
		}
		if err := d.Close(); err != nil || len(seen) != names {
			return n, fmt.Errorf("%d names of %d are listed: %w", len(seen), names, err)
		}
	}
	return n, nil
}

// holdLock takes a lock and lets it go; while it is held, nobody else gets it.
func holdLock(ctx context.Context, dir string) (n int, err error) {
	p := filepath.Join(dir, "lock")
	mine, err := os.Create(p)
	if err != nil {
		return 0, err
	}
	defer mine.Close()
	for ; ctx.Err() == nil; n++ {
		if err := syscall.Flock(int(mine.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
			return n, err
		}
		other, err := os.Open(p)
		if err != nil {
			return n, err
		}
		if err := syscall.Flock(int(other.Fd()), syscall.LOCK_SH|syscall.LOCK_NB); err != syscall.EWOULDBLOCK {
			return n, fmt.Errorf("somebody else got the lock that is held: %v", err)
		}
		if err := firstError(syscall.Flock(int(mine.Fd()), syscall.LOCK_UN), other.Close()); err != nil {
			return n, err
		}
	}
	return n, nil
}
