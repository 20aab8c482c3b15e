package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestLateLog: nothing is made where the store is not ours; what was said before there was a place for it is kept.
func TestLateLog(t *testing.T) {
	dir := t.TempDir()
	l := &lateLog{dir: dir}
	defer l.close()
	if err := l.reserve(); err != nil {
		t.Fatal(err)
	}
	put := func(line string) {
		t.Helper()
		if n, err := l.Write([]byte(line)); n != len(line) || err != nil {
			t.Fatalf("%d, %v", n, err)
		}
	}
	put("early\n")
	if err := l.open(true); err == nil {
		t.Error("opened without a store")
	}
	tt := filepath.Join(dir, ".tt")
	if err := os.Mkdir(tt, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := l.open(false); err == nil {
		t.Error("opened in a store that may be foreign")
	}
	if left, err := os.ReadDir(tt); err != nil || len(left) != 0 {
		t.Fatalf("something was made: %v, %v", left, err)
	}
	if err := l.open(true); err != nil {
		t.Fatal(err)
	}
	put("late\n")
	b, err := os.ReadFile(filepath.Join(tt, "daemon.log"))
	if err != nil || string(b) != "early\nlate\n" {
		t.Errorf("%q, %v", b, err)
	}
	if st, err := os.Stat(filepath.Join(tt, "daemon.log")); err != nil || st.Mode().Perm()&0o077 != 0 {
		t.Errorf("others may read it: %v, %v", st.Mode(), err)
	}
}
