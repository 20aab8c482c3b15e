package integration

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ttfs/ttfs/integration/rig"
	"golang.org/x/sys/unix"
)

// listings is how many requests for a listing the daemon of a workspace was sent.
func listings(t *testing.T, w *rig.Workspace) int {
	t.Helper()
	sum := 0
	for _, m := range regexp.MustCompile(`op="readdir(?:plus)?"\} (\d+)`).FindAllStringSubmatch(get(t, w, ".tt/metrics"), -1) {
		n, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	return sum
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := []string{}
	for _, ent := range entries {
		out = append(out, ent.Name())
	}
	return out
}

// keeps lists a directory until the kernel answers by itself.
func keeps(t *testing.T, w *rig.Workspace, dir string) {
	t.Helper()
	rig.Eventually(t, "a listing of "+dir+" without a request", func() bool {
		before := listings(t, w)
		names(t, filepath.Join(w.Dir, dir))
		return listings(t, w) == before
	})
}

func byTransport(t *testing.T, f func(t *testing.T, flags ...string)) {
	for _, kind := range []string{"auto", "classic"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			f(t, "--transport", kind)
		})
	}
}

// TestListingsAreTrue: the kernel keeps the listing of a directory, and whatever changes the directory ends that, for who lists it anew and
// for who has it open and goes back to its beginning.
func TestListingsAreTrue(t *testing.T) {
	t.Parallel()
	byTransport(t, func(t *testing.T, flags ...string) {
		w := rig.New(t)
		w.Sh("mkdir d; touch d/a d/b d/c").OK()
		fd, err := unix.Open(w.Dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(fd) })
		below := fmt.Sprintf("/proc/self/fd/%d/", fd)
		w.Mount(flags...)
		w.Task("one")
		const (
			atOnce = iota
			late
			never
		)
		type step struct {
			what, want string
			told       int // the kernel is, so that who has the directory open sees it
			do         func()
		}
		steps := []step{
			{"it is made", "a b c own", atOnce, func() { w.Sh("touch d/own").OK() }},
			{"it is removed", "b c own", atOnce, func() { w.Sh("rm d/a").OK() }},
			{"it is renamed", "b moved own", atOnce, func() { w.Sh("mv d/c d/moved").OK() }},
			{"the move back", "a b c", atOnce, func() { w.Must("undo") }},
			{"the move forth", "b moved own", atOnce, func() { w.Must("redo") }},
			{"another task", "b moved new own", atOnce, func() { w.Task("two"); w.Sh("touch d/new").OK() }},
			{"its move back", "b moved own", atOnce, func() { w.Must("undo") }},
			{"around the mount", "around b moved own", never, func() { write(t, below+"d/around", "") }},
			{"around it again", "b moved own", never, func() { remove(t, below+"d/around") }},
			{"a merge", "b fork moved own", atOnce, func() { inFork(t, w, "c", "touch d/fork").OK(); w.TTFS("merge", "c").OK() }},
			{"the merge taken back", "b moved own", atOnce, func() { w.TTFS("undo").OK() }},
			{"another view", "b moved own view", late, func() { write(t, w.Path(".tt/as/bob/d/view"), "") }},
			{"the view again", "b moved own", late, func() { remove(t, w.Path(".tt/as/bob/d/view")) }},
		}
		// A change of just now is told apart by that alone. These are looked at when they are older.
		again := []step{
			{"around, a while ago", "b late moved own", never, func() { write(t, below+"d/late", "") }},
			{"around, removed a while ago", "b moved own", never, func() { remove(t, below+"d/late") }},
			{"the view, a while ago", "b late moved own", late, func() { write(t, w.Path(".tt/as/bob/d/late"), "") }},
		}
		for i, s := range append(steps, again...) {
			keeps(t, w, "d")
			open, err := os.Open(w.Path("d"))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := open.Readdirnames(-1); err != nil {
				t.Fatal(err)
			}
			unread, err := os.Open(w.Path("d"))
			if err != nil {
				t.Fatal(err)
			}
			s.do()
			if done := time.Now(); i >= len(steps) {
				rig.Eventually(t, "a tenth of a second", func() bool { return time.Since(done) > 100*time.Millisecond })
			}
			if got := strings.Join(names(t, w.Path("d")), " "); got != s.want {
				t.Errorf("%s: %s, want %s", s.what, got, s.want)
			}
			for who, f := range map[string]*os.File{"from the beginning again": open, "opened before, and read after": unread} {
				fromStart := func() string {
					if _, err := f.Seek(0, 0); err != nil {
						t.Fatal(err)
					}
					got, err := f.Readdirnames(-1)
					if err != nil {
						t.Fatal(err)
					}
					slices.Sort(got)
					return strings.Join(got, " ")
				}
				got := fromStart()
				if s.told == late { // the kernel may not have been told yet
					rig.Eventually(t, s.what+": "+who, func() bool { got = fromStart(); return got == s.want })
				}
				if got != s.want && s.told != never {
					t.Errorf("%s: %s: %s, want %s", s.what, who, got, s.want)
				}
			}
			open.Close()
			unread.Close()
		}
	})
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

// TestListingsInAFork: what a fork has not touched is kept too, and ends when it does.
func TestListingsInAFork(t *testing.T) {
	t.Parallel()
	w := mounted(t)
	w.Sh("mkdir d; touch d/a d/b").OK()
	w.TTFS("fork", "c").OK()
	tree := ".tt/forks/c/tree/d"
	for _, s := range []struct{ what, do, want string }{
		{"of the parent", "touch d/parents; rm d/a", "a b"},
		{"of its own", "touch " + tree + "/forks; rm " + tree + "/a", "b forks"},
	} {
		keeps(t, w, tree)
		open, err := os.Open(w.Path(tree))
		if err != nil {
			t.Fatal(err)
		}
		w.Sh(s.do).OK()
		for range 2 {
			if got := strings.Join(names(t, w.Path(tree)), " "); got != s.want {
				t.Errorf("after a change %s: %s, want %s", s.what, got, s.want)
			}
		}
		// Who opened it before may see what was there then, or what is there now, but whole.
		if got, err := open.Readdirnames(-1); err != nil || !slices.Contains(got, "b") {
			t.Errorf("open since before a change %s: %s (%v)", s.what, got, err)
		}
		open.Close()
	}
	if got := strings.Join(names(t, w.Path("d")), " "); got != "b parents" {
		t.Errorf("in the workspace: %s", got)
	}
}

// entry is one entry of a directory as the kernel gives it.
type entry struct {
	name string
	next int64
}

// chunk reads the next entries of an open directory, few at once, without "." and "..".
func chunk(t *testing.T, fd int) (out []entry, more bool) {
	t.Helper()
	b := make([]byte, 256)
	n, err := unix.Getdents(fd, b)
	if err != nil {
		t.Fatal(err)
	}
	for at := b[:n]; len(at) > 0; at = at[binary.NativeEndian.Uint16(at[16:]):] {
		name := string(at[19:binary.NativeEndian.Uint16(at[16:])])
		name, _, _ = strings.Cut(name, "\x00")
		out = append(out, entry{name, int64(binary.NativeEndian.Uint64(at[8:]))})
	}
	return out, n > 0
}

func openDir(t *testing.T, path string) int {
	t.Helper()
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

// TestListingsBySmallSteps: of a directory with more entries than one request has, each is given once; seekdir(3) comes back to where
// telldir(3) was; and what is removed while it is listed does not hide the rest, as rm(1) does. With the kernel's listing and without.
func TestListingsBySmallSteps(t *testing.T) {
	t.Parallel()
	many := 3000
	if os.Getenv("TTFS_NIGHTLY") == "1" {
		many = 100_000
	}
	byTransport(t, func(t *testing.T, flags ...string) {
		w := rig.New(t)
		w.Sh("mkdir d; cd d; seq -f 'name-%07.0f' " + strconv.Itoa(many) + " | xargs touch").OK()
		w.Mount(flags...)
		for _, keep := range []bool{false, true} {
			if keep {
				keeps(t, w, "d")
			}
			fd := openDir(t, w.Path("d"))
			var all []entry
			seen := map[string]bool{}
			for {
				part, more := chunk(t, fd)
				if !more {
					break
				}
				for _, ent := range part {
					if seen[ent.name] {
						t.Fatalf("kept %v: %s is given twice", keep, ent.name)
					}
					seen[ent.name] = true
				}
				all = append(all, part...)
			}
			if len(all) != many+2 {
				t.Fatalf("kept %v: %d entries, want %d", keep, len(all), many+2)
			}
			for i := len(all) - 2; i > 0; i -= len(all) / 10 {
				if _, err := unix.Seek(fd, all[i].next, unix.SEEK_SET); err != nil {
					t.Fatal(err)
				}
				if part, _ := chunk(t, fd); len(part) == 0 || part[0].name != all[i+1].name {
					t.Fatalf("kept %v: after %s comes %v, not %s", keep, all[i].name, part, all[i+1].name)
				}
			}
		}
		w.Task("remove")
		fd, removed := openDir(t, w.Path("d")), 0
		for {
			part, more := chunk(t, fd)
			if !more {
				break
			}
			for _, ent := range part {
				if strings.HasPrefix(ent.name, "name-") && removed < 3000 {
					remove(t, w.Path("d/"+ent.name))
					removed++
				}
			}
		}
		if got := len(names(t, w.Path("d"))); got != many-3000 {
			t.Fatalf("%d entries are left of %d", got, many-3000)
		}
		w.Must("undo")
		if got := len(names(t, w.Path("d"))); got != many {
			t.Errorf("after the undo there are %d entries, not %d", got, many)
		}
	})
}
