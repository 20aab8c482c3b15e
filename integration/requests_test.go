package integration

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/ttfs/ttfs/integration/rig"
	"golang.org/x/sys/unix"
)

// requests are those that the daemon of a workspace was sent, by operation.
func requests(t *testing.T, w *rig.Workspace) map[string]int {
	t.Helper()
	all := map[string]int{}
	for _, m := range regexp.MustCompile(`ttfs_requests_total\{op="(\w+)"\} (\d+)`).FindAllStringSubmatch(get(t, w, ".tt/metrics"), -1) {
		n, err := strconv.Atoi(m[2])
		if err != nil {
			t.Fatal(err)
		}
		all[m[1]] = n
	}
	return all
}

// TestRequestsThatAreNotMade: what the kernel knows it does not ask again: names that are there and that are not, attributes, targets of
// symbolic links, listings; nothing is told at a close; and files are read and written by the kernel alone.
func TestRequestsThatAreNotMade(t *testing.T) {
	t.Parallel()
	byTransport(t, func(t *testing.T, flags ...string) {
		w := rig.New(t)
		w.Sh("mkdir d; echo content > d/f; ln -s f d/link").OK()
		w.Mount(flags...)
		w.Task("one")
		const size = 4096
		buffer := make([]byte, size)
		open := func(name string, flags int, f func(fd int) error) func() error {
			return func() error {
				fd, err := unix.Open(w.Path(name), flags|unix.O_CLOEXEC, 0o644)
				if err != nil {
					return err
				}
				defer unix.Close(fd)
				return f(fd)
			}
		}
		var held *os.File
		for _, c := range []struct {
			what string
			do   func() error
			// wants are the requests of the second time; of releases it is not known when they come.
			wants map[string]int
		}{
			{"stat", func() error { _, err := os.Lstat(w.Path("d/f")); return err }, nil},
			{"stat of a missing name", func() error {
				if _, err := os.Lstat(w.Path("d/none")); !os.IsNotExist(err) {
					t.Errorf("a missing name: %v", err)
				}
				return nil
			}, nil},
			{"readlink", func() error { _, err := os.Readlink(w.Path("d/link")); return err }, nil},
			{"a listing", func() error { _, err := os.ReadDir(w.Path("d")); return err }, map[string]int{"opendir": 1}},
			{"reading", open("d/f", unix.O_RDONLY, func(fd int) error { _, err := unix.Pread(fd, buffer, 0); return err }), map[string]int{"open": 1}},
			{"writing, opened before", func() (err error) {
				if held == nil {
					held, err = os.Create(w.Path("d/new"))
				}
				if err == nil {
					_, err = held.WriteAt(buffer, 0)
				}
				return err
			}, nil},
		} {
			// The attributes that a request brings may be doubted for one more; a directory is not kept in its first moments.
			rig.Eventually(t, filepath.Base(t.Name())+": "+c.what+" without more requests than need be", func() bool {
				first := requests(t, w)
				second := requests(t, w) // what it costs to look
				if err := c.do(); err != nil {
					t.Fatalf("%s: %v", c.what, err)
				}
				got := map[string]int{}
				for op, n := range requests(t, w) {
					n -= second[op] + second[op] - first[op]
					if n != 0 && !slices.Contains([]string{"release", "releasedir", "forget", "batch_forget"}, op) {
						got[op] = n
					}
				}
				return maps.Equal(got, c.wants)
			})
		}
		if held != nil {
			held.Close()
		}
	})
}
