package fs

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"

	"github.com/ttfs/ttfs/fs/control"
	"github.com/ttfs/ttfs/fs/overlay"
)

// slowCheck is a check that says a line for each that it is given, and ends when there are no more.
func slowCheck(lines <-chan string) *checkFile {
	return &checkFile{all: &checks{}, verify: func(ctx context.Context, report func(string)) (n overlay.VerifyCounts, err error) {
		for {
			select {
			case <-ctx.Done():
				return n, ctx.Err()
			case l, ok := <-lines:
				if !ok {
					n.Tasks = 3
					return n, nil
				}
				n.Problems++
				report(l)
			}
		}
	}}
}

// reading is an io.Reader of a check.
type reading struct {
	c      *check
	cancel chan struct{}
	off    int64
}

func (r *reading) Read(b []byte) (int, error) {
	n, err := r.c.read(r.cancel, b, r.off)
	r.off += int64(n)
	if n == 0 && err == nil {
		err = io.EOF
	}
	return n, err
}

func TestCheckIsReadAsItComes(t *testing.T) {
	lines := make(chan string)
	f := slowCheck(lines)
	c, err := f.open()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.open(); control.Errno(err) != syscall.EBUSY {
		t.Errorf("a second one at once: %v", err)
	}
	r := &reading{c: c}
	b := make([]byte, 100)
	for _, l := range []string{"task 1: gone", "task 2: bent"} {
		lines <- l
		if n, err := r.Read(b); err != nil || string(b[:n]) != l+"\n" {
			t.Fatalf("%q, %v", b[:n], err)
		}
	}
	close(lines)
	rest, err := io.ReadAll(r)
	if want := "3 tasks, 0 images, 0 pieces, 0 records, 0 blobs: 2 problems\n"; err != nil || string(rest) != want {
		t.Errorf("%q, %v", rest, err)
	}
	if n, err := c.read(nil, b, 5); err != nil || !strings.HasPrefix(string(b[:n]), "1: gone\ntask 2") {
		t.Errorf("from an offset: %q, %v", b[:n], err)
	}
	<-c.done
	if c, err = f.open(); err != nil {
		t.Fatal(err)
	}
	c.close()
	<-c.done
}

// TestCheckIsGivenUp: by an interrupt, a close and the end of the mount; then there can be another, but for the last.
func TestCheckIsGivenUp(t *testing.T) {
	lines := make(chan string)
	f := slowCheck(lines)
	for name, stop := range map[string]func(c *check){
		"interrupted": func(c *check) {
			r := &reading{c: c, cancel: make(chan struct{})}
			close(r.cancel)
			if _, err := r.Read(make([]byte, 10)); err != syscall.EINTR {
				t.Errorf("an interrupted read: %v", err)
			}
		},
		"closed": func(c *check) { c.close() },
	} {
		c, err := f.open()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		stop(c)
		<-c.done
		if _, err := io.ReadAll(&reading{c: c}); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: it ended with %v", name, err)
		}
	}
	c, err := f.open()
	if err != nil {
		t.Fatal(err)
	}
	f.all.end()
	select {
	case <-c.done:
	default:
		t.Error("the end of the mount does not wait for the end of the check")
	}
	if _, err := f.open(); control.Errno(err) != syscall.EBUSY {
		t.Errorf("after the end: %v", err)
	}
	f.all.end()
}

func TestCheckJSON(t *testing.T) {
	lines := make(chan string, maxProblems+5)
	for range maxProblems + 5 {
		lines <- "a <problem>"
	}
	close(lines)
	f := slowCheck(lines)
	f.json = true
	c, err := f.open()
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(&reading{c: c})
	var res checkResult
	if err != nil || json.Unmarshal(b, &res) != nil || res.Tasks != 3 || len(res.Problems) != maxProblems+1 || res.Problems[maxProblems] != "and 5 more" || !strings.Contains(string(b), "<problem>") {
		t.Errorf("%v, %d problems, %.200s", err, len(res.Problems), b)
	}
}
