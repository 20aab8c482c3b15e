package journal

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"testing"
)

const killEnv = "JOURNAL_TEST_KILL_DIR"

// TestMain turns the test binary into the victim of TestKill.
func TestMain(m *testing.M) {
	if dir := os.Getenv(killEnv); dir != "" {
		if err := victim(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// victim commits numbers for ever and prints each that was acknowledged.
func victim(dir string) error {
	j, err := Open(dir, Options{FloorBytes: -1, SegmentBytes: 50000, MemBytes: 20000})
	if err != nil {
		return err
	}
	first := uint64(0)
	if v, ok, err := j.Get([]byte("n")); err != nil {
		return err
	} else if ok {
		first = binary.BigEndian.Uint64(v)
	}
	for i := first + 1; ; i++ {
		var b Batch
		n := binary.BigEndian.AppendUint64(nil, i)
		b.Put([]byte("n"), n)
		b.Put(fmt.Appendf(nil, "big/%d", i%50), append(n, make([]byte, 700)...))
		b.Put(fmt.Appendf(nil, "small/%d", i%50), n)
		if err := j.Commit(&b); err != nil {
			return err
		}
		if _, err := fmt.Println(i); err != nil {
			return err
		}
	}
}

// TestKill kills a process with SIGKILL while it commits and checkpoints: all that it has acknowledged is there, whole batches only.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	for round := range 4 {
		acked := killAfter(t, dir, 200+round*333)
		j := mustOpen(t, dir, testOptions(t))
		if p := j.Problems(); len(p) > 0 {
			t.Fatal(p)
		}
		v, ok, err := j.Get([]byte("n"))
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		n := binary.BigEndian.Uint64(v)
		if n < acked {
			t.Fatalf("%d was acknowledged, %d is there", acked, n)
		}
		for i := n; i > n-50; i-- {
			for _, kind := range []string{"big", "small"} {
				v, ok, err := j.Get(fmt.Appendf(nil, "%s/%d", kind, i%50))
				if err != nil || !ok || binary.BigEndian.Uint64(v) != i {
					t.Fatalf("%s of %d: %v, %v", kind, i, ok, err)
				}
			}
		}
		wantSound(t, j)
		mustClose(t, j)
	}
}

// killAfter lets a victim acknowledge count commits, kills it and returns the last acknowledged one.
func killAfter(t *testing.T, dir string, count int) (acked uint64) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), killEnv+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for i := 0; lines.Scan(); i++ {
		n, err := strconv.ParseUint(lines.Text(), 10, 64)
		if err != nil || n < acked {
			break // the last line may be cut off
		}
		acked = n
		if i == count {
			if err := cmd.Process.Kill(); err != nil {
				t.Error(err)
			}
		}
	}
	_ = cmd.Wait() // killed
	return acked
}
