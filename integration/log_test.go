package integration

import (
	"bytes"
	"context"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// said is what a program prints, as it comes.
type said struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// TestLogTurns: a log that is full begins anew, `tail -f` follows it over that, and the old one is kept.
func TestLogTurns(t *testing.T) {
	t.Parallel()
	w := mounted(t)
	w.Task("before")
	w.Unmount()
	const line = "2026-01-02T03:04:05Z task agent=old task=1 title=x\n"
	full := strings.Repeat(line, (16<<20-1)/len(line)) // room for one line more
	if err := os.WriteFile(w.Path(".tt/log"), []byte(full), 0o600); err != nil {
		t.Fatal(err)
	}
	w.Mount()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var out said
	tail := w.Command(ctx, w.Dir, "tail", "-n", "1", "-s", "0.1", "-f", ".tt/log")
	tail.Stdout = &out
	if err := tail.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { stop(); _ = tail.Wait() }()
	until := func(word string) {
		t.Helper()
		for end := time.Now().Add(30 * time.Second); !strings.Contains(out.String(), word); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("tail never says %q: %q", word, out.String())
			}
		}
	}
	until("agent=old")
	w.Task("number-one")
	until("title=number-one")
	w.Task("number-two") // the log is over its bound by one of these
	w.Task("number-three")
	w.Task("number-four")
	until("title=number-four")
	if got := w.Read(".tt/log"); strings.Contains(got, "agent=old") || !strings.Contains(got, "number-four") || len(got) > 1<<20 {
		t.Errorf("the new log has %d bytes: %.200q", len(got), got)
	}
	stop()
	_ = tail.Wait()
	w.Unmount()
	old, err := os.ReadFile(w.Path(".tt/log.1"))
	if err != nil || len(old) < len(full) || !bytes.Contains(old, []byte("number-one")) {
		t.Errorf("the old log has %d bytes, %v", len(old), err)
	}
}
