package fs

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// openShown is a directory as the child has a mount open. Here its calls have their effect.
func openShown(t *testing.T) (*shown, string) {
	t.Helper()
	dir := t.TempDir()
	s := &shown{root: -1}
	t.Cleanup(s.close)
	if err := s.do(&showStep{Op: showBegin, Path: []byte(dir), Dev: deviceOf(t, dir)}); err != nil {
		t.Fatal(err)
	}
	return s, dir
}

func deviceOf(t *testing.T, dir string) uint64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		t.Fatal(err)
	}
	return st.Dev
}

func TestShownMakesTheCalls(t *testing.T) {
	s, dir := openShown(t)
	if err := os.Mkdir(filepath.Join(dir, "in"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, kind := range map[string]uint32{"f": unix.S_IFREG, "d": unix.S_IFDIR, "l": unix.S_IFLNK, "p": unix.S_IFIFO, "s": unix.S_IFSOCK, "in/f": unix.S_IFREG, "in/d": unix.S_IFDIR} {
		path := filepath.Join(dir, name)
		if err := s.do(&showStep{Op: showCreate, Path: []byte(name), Kind: kind}); err != nil {
			t.Fatalf("create %s: %v", name, err)
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil || st.Mode&unix.S_IFMT != kind {
			t.Errorf("create %s: it is %o, want %o; %v", name, st.Mode, kind, err)
		}
		if err := s.do(&showStep{Op: showCreate, Path: []byte(name), Kind: kind}); !errors.Is(err, unix.EEXIST) {
			t.Errorf("create %s again: %v", name, err)
		}
		for _, op := range []showOp{showModify, showAttrib} {
			if err := s.do(&showStep{Op: op, Path: []byte(name)}); err != nil {
				t.Errorf("%s %s: %v", op, name, err)
			}
		}
		remove := uint32(unix.S_IFREG)
		if kind == unix.S_IFDIR {
			remove = kind
		}
		if err := s.do(&showStep{Op: showDelete, Path: []byte(name), Kind: remove}); err != nil {
			t.Errorf("delete %s: %v", name, err)
		}
		if err := unix.Lstat(path, &st); err != unix.ENOENT {
			t.Errorf("delete %s: %v", name, err)
		}
	}
	if err := s.do(&showStep{Op: showAttrib}); err != nil {
		t.Errorf("the root: %v", err)
	}
}

// TestShownStaysInside: neither a symbolic link nor a dot leads out of the root; nothing is done without one; and the
// root must be the filesystem that is meant.
func TestShownStaysInside(t *testing.T) {
	s, dir := openShown(t)
	outside := t.TempDir()
	kept := filepath.Join(outside, "kept")
	if err := os.WriteFile(kept, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"link/kept", "../" + filepath.Base(outside) + "/kept", "/" + kept} {
		if err := s.do(&showStep{Op: showDelete, Path: []byte(name), Kind: unix.S_IFREG}); err == nil {
			t.Errorf("%s was deleted", name)
		}
	}
	if err := s.do(&showStep{Op: "other", Path: []byte("f")}); !errors.Is(err, unix.EINVAL) {
		t.Errorf("an unknown step: %v", err)
	}
	if err := s.do(&showStep{Op: showEnd}); err != nil {
		t.Error(err)
	}
	if err := s.do(&showStep{Op: showCreate, Path: []byte("f"), Kind: unix.S_IFREG}); !errors.Is(err, unix.EBADF) {
		t.Errorf("after the end: %v", err)
	}
	if err := s.do(&showStep{Op: showBegin, Path: []byte(dir), Dev: deviceOf(t, dir) + 1}); err == nil {
		t.Error("it began on another device")
	}
	if err := s.do(&showStep{Op: showBegin, Path: []byte(filepath.Join(dir, "link")), Dev: deviceOf(t, outside)}); err == nil {
		t.Error("it began behind a symbolic link")
	}
	if _, err := os.Stat(kept); err != nil {
		t.Error(err)
	}
}

// TestShownOpensNoFifo: a reader of a fifo would take the open for that of a writer.
func TestShownOpensNoFifo(t *testing.T) {
	s, dir := openShown(t)
	fifo := filepath.Join(dir, "p")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	reader, err := unix.Open(fifo, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(reader)
	if err := s.do(&showStep{Op: showModify, Path: []byte("p")}); err != nil {
		t.Error(err)
	}
	poll := []unix.PollFd{{Fd: int32(reader), Events: unix.POLLIN}}
	if n, err := unix.Poll(poll, 0); err != nil || n != 0 {
		t.Errorf("the reader is told of %#x, %v: somebody opened it", poll[0].Revents, err)
	}
}

func TestStatDev(t *testing.T) {
	for dev, want := range map[uint64]uint64{0x2d: unix.Mkdev(0, 0x2d), 8<<20 | 1: unix.Mkdev(8, 1), 259<<20 | 0xfffff: unix.Mkdev(259, 0xfffff)} {
		if got := statDev(dev); got != want {
			t.Errorf("%#x: %#x, want %#x", dev, got, want)
		}
	}
}

// TestTooManySteps: past the bound there is one step for each directory, and one line in the log.
func TestTooManySteps(t *testing.T) {
	var log bytes.Buffer
	r := &replay{f: &face{log: slog.New(slog.NewTextHandler(&log, nil))}}
	var steps []*showing
	for i := range showMost {
		steps = append(steps, &showing{step: showStep{Op: showCreate, Path: fmt.Appendf(nil, "d%d/f%d", i%3, i)}})
	}
	if got := r.bounded(steps); len(got) != showMost || log.Len() != 0 {
		t.Errorf("at the bound: %d steps, log %q", len(got), log.String())
	}
	steps = append(steps, &showing{step: showStep{Op: showDelete, Path: []byte("top")}})
	var dirs []string
	for _, s := range r.bounded(steps) {
		if s.step.Op != showAttrib {
			t.Errorf("past the bound: %s of %q", s.step.Op, s.step.Path)
		}
		dirs = append(dirs, string(s.step.Path))
	}
	if got := strings.Join(dirs, " "); got != "d0 d1 d2 " {
		t.Errorf("past the bound: directories %q", got)
	}
	if lines := strings.Count(log.String(), "\n"); lines != 1 {
		t.Errorf("%d lines in the log: %s", lines, log.String())
	}
}

func startTestShower(t *testing.T, command ...string) *shower {
	t.Helper()
	s, err := startShower(command)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.end)
	return s
}

func waitGone(t *testing.T, s *shower) {
	t.Helper()
	select {
	case <-s.gone:
	case <-time.After(time.Minute):
		t.Fatal("the child does not end")
	}
}

// TestShowerEnds: with its input; and by force, when it does not read that.
func TestShowerEnds(t *testing.T) {
	for _, command := range [][]string{{"cat"}, {"tail", "-f", "/dev/null"}, {"true"}} {
		s := startTestShower(t, command...)
		s.end()
		waitGone(t, s)
		if s.lives() {
			t.Errorf("%q lives", command)
		}
		s.end()
		s.kill()
	}
}

// TestShowerPID: the child's pid is written down only while it replays, and not when it is dead.
func TestShowerPID(t *testing.T) {
	var mark atomic.Uint32
	s := startTestShower(t, "cat")
	if err := s.owns(&mark); err != nil || mark.Load() != uint32(s.cmd.Process.Pid) {
		t.Fatalf("the pid is %d, want %d; %v", mark.Load(), s.cmd.Process.Pid, err)
	}
	s.disown(&mark)
	if mark.Load() != 0 {
		t.Error("it is still written down")
	}
	if err := s.owns(&mark); err != nil {
		t.Fatal(err)
	}
	s.kill()
	waitGone(t, s)
	if mark.Load() != 0 {
		t.Error("it is written down after its end")
	}
	if err := s.owns(&mark); !errors.Is(err, errShowerGone) || mark.Load() != 0 {
		t.Errorf("the pid of a dead child: %d, %v", mark.Load(), err)
	}
	if _, err := s.ask(&showStep{Op: showBegin}); !errors.Is(err, errShowerGone) {
		t.Errorf("a dead child answers: %v", err)
	}
}

// TestShowerAnswers: what the child says, and a child that says nothing that can be understood.
func TestShowerAnswers(t *testing.T) {
	s := startTestShower(t, "sh", "-c", `read a; echo '""'; read b; printf '%s\n' '"not\nthere"'; read c; echo garbage; cat`)
	for i, want := range []string{"", "not\nthere"} {
		if said, err := s.ask(&showStep{Op: showAttrib}); said != want || err != nil {
			t.Errorf("answer %d: %q, %v; want %q", i, said, err, want)
		}
	}
	if said, err := s.ask(&showStep{Op: showAttrib}); err == nil {
		t.Errorf("garbage was understood as %q", said)
	}
}
