package integration

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestAccessTimes: access times are the backing filesystem's, by its own options, not the mount's: a read through the mount moves
// them as one below it does (xfstests generic/003 and 120 ask for the mount's).
func TestAccessTimes(t *testing.T) {
	t.Parallel()
	w := mounted(t)
	w.Unmount()
	below, err := os.OpenRoot(w.Dir) // as it is on the disk, whoever is mounted over it
	if err != nil {
		t.Fatal(err)
	}
	defer below.Close()
	for _, name := range []string{"bare", "through"} {
		if err := os.WriteFile(w.Path(name), []byte("text"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	w.Mount()
	old := time.Unix(1_000_000_000, 0)
	moved := map[string]bool{}
	for _, name := range []string{"bare", "through"} {
		if err := os.Chtimes(w.Path(name), old, time.Now()); err != nil {
			t.Fatal(err)
		}
		read := os.ReadFile
		if name == "bare" {
			read = func(string) ([]byte, error) { return below.ReadFile(name) }
		}
		if b, err := read(w.Path(name)); err != nil || string(b) != "text" {
			t.Fatalf("%s: %q, %v", name, b, err)
		}
		st, err := below.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		moved[name] = st.Sys().(*syscall.Stat_t).Atim.Sec != old.Unix()
	}
	t.Logf("a read moves them: %v", moved)
	if moved["bare"] != moved["through"] {
		t.Errorf("access times are moved by a read: %v", moved)
	}
}

// TestRoomForAttributes: a file takes as many attributes as it takes on the bare disk, and says ENOSPC as that does (xfstests
// generic/020 wants more of a filesystem that it does not know than ext4 has room for).
func TestRoomForAttributes(t *testing.T) {
	t.Parallel()
	w := mounted(t)
	fill := func(name string) (n int, err error) {
		t.Helper()
		if err := os.WriteFile(w.Path(name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		for n = 0; n < 2000; n++ {
			if err = unix.Setxattr(w.Path(name), fmt.Sprintf("user.attribute.%d", n), make([]byte, 100), 0); err != nil {
				break
			}
		}
		return n, err
	}
	mounted, how := fill("mounted")
	w.Unmount()
	bare, want := fill("bare")
	t.Logf("%d attributes, then %v", mounted, how)
	if mounted != bare || mounted == 0 || !errors.Is(how, want) {
		t.Errorf("%d attributes, then %v; on the bare disk %d, then %v", mounted, how, bare, want)
	}
}
