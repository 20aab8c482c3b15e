package fs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// testLog is a log with a small bound.
func testLog(t *testing.T) (l *eventLog, dir string) {
	t.Helper()
	dir = t.TempDir()
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if l, err = openEventLog(fd, os.Getuid(), os.Getgid()); err != nil {
		t.Fatal(err)
	}
	l.max = 1000
	t.Cleanup(func() { l.close() })
	return l, dir
}

func readLog(t *testing.T, l *eventLog) string {
	t.Helper()
	b := make([]byte, 1<<20)
	n, err := l.readAt(b, 0)
	if err != nil || int64(n) != l.bytes() {
		t.Fatalf("%d bytes read, %d are there, %v", n, l.bytes(), err)
	}
	return string(b[:n])
}

// TestEventLogTurns: what is in both files is the end of all lines, in order; neither grows much past the bound.
func TestEventLogTurns(t *testing.T) {
	l, dir := testLog(t)
	var all strings.Builder
	for i := range 500 {
		s := fmt.Sprintf("line %d", i)
		all.WriteString(s + "\n")
		if err := l.line(s); err != nil {
			t.Fatal(err)
		}
		if n := l.bytes(); n > 1000+20 {
			t.Fatalf("the log has %d bytes", n)
		}
		if i == 250 { // the next daemon goes on with it
			again, err := openEventLog(l.dir, l.uid, l.gid)
			if err != nil {
				t.Fatal(err)
			}
			again.max = l.max
			defer again.close()
			l = again
		}
	}
	old, err := os.ReadFile(filepath.Join(dir, oldLogName))
	if err != nil {
		t.Fatal(err)
	}
	kept := string(old) + readLog(t, l)
	if !strings.HasSuffix(all.String(), kept) || len(old) < 1000 || !strings.HasPrefix(kept, "line ") {
		t.Errorf("kept are %d bytes: %.40q...", len(kept), kept)
	}
}

// TestEventLogGoesOn: a log that cannot be turned loses no line.
func TestEventLogGoesOn(t *testing.T) {
	l, dir := testLog(t)
	if err := os.MkdirAll(filepath.Join(dir, oldLogName, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	failed := 0
	for i := range 300 {
		if err := l.line(fmt.Sprintf("line %d", i)); err != nil {
			failed++
		}
	}
	if got := readLog(t, l); strings.Count(got, "\n") != 300 || failed == 0 {
		t.Errorf("%d lines, %d errors", strings.Count(got, "\n"), failed)
	}
	if err := os.RemoveAll(filepath.Join(dir, oldLogName)); err != nil {
		t.Fatal(err)
	}
	if err := l.line("turned"); err != nil || readLog(t, l) != "turned\n" {
		t.Errorf("%q, %v", readLog(t, l), err)
	}
}

func TestEventLogAtOnce(t *testing.T) {
	l, _ := testLog(t)
	l.max = 1 << 30
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 100 {
				if err := l.line(fmt.Sprintf("%d of %d", i, g)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if got := strings.Count(readLog(t, l), "\n"); got != 800 {
		t.Errorf("%d lines", got)
	}
}
