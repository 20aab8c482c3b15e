package identity

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestFile: a process's file comes whole whatever its size, up to the limit; one that is not there has vanished, and no
// descriptor is left.
func TestFile(t *testing.T) {
	p := procfs{dir: t.TempDir()}
	if err := os.Mkdir(filepath.Join(p.dir, "7"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{0, 1, 300, 1023, 1024, 1025, 5000, 70_000} {
		want := bytes.Repeat([]byte("0123456789"), size/10+1)[:size]
		if err := os.WriteFile(filepath.Join(p.dir, "7", "environ"), want, 0o644); err != nil {
			t.Fatal(err)
		}
		for _, limit := range []int{size + 1, size, 64 << 10, 100} {
			for _, whole := range []bool{false, true} {
				got, err := p.file(7, "environ", limit, whole)
				if err != nil || !bytes.Equal(got, want[:min(size, limit)]) {
					t.Errorf("of %d bytes, at most %d: %d, %v", size, limit, len(got), err)
				}
			}
		}
	}
	before := descriptors(t)
	for range 10 {
		if _, err := p.file(8, "stat", 100, true); !vanished(err) {
			t.Errorf("no such process: %v", err)
		}
		if _, err := p.file(7, "", 100, true); err == nil || errors.Is(err, os.ErrNotExist) {
			t.Errorf("a directory: %v", err)
		}
	}
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors, %d before", after, before)
	}
}

func descriptors(t *testing.T) int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}
