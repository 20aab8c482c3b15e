package fs

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

func TestParseWatch(t *testing.T) {
	for _, c := range []struct {
		line     string
		ino, dev uint64
		ok       bool
	}{
		{"inotify wd:1 ino:5a3 sdev:2d mask:fce ignored_mask:0 fhandle-bytes:c fhandle-type:81 f_handle:0a00", 0x5a3, 0x2d, true},
		{"inotify wd:ff ino:ffffffffffffffff sdev:800001 mask:2 ignored_mask:0", 1<<64 - 1, 8<<20 | 1, true},
		{"inotify wd:1 ino:1 sdev:10", 1, 16, true},
		{"inotify wd:1 ino:1", 0, 0, false},
		{"inotify wd:1 ino:xyz sdev:10", 0, 0, false},
		{"inotify wd:1 ino: sdev:10", 0, 0, false},
		{"inotify", 0, 0, false},
		{"fanotify ino:1 sdev:10 mflags:0 mask:3b", 0, 0, false},
		{"pos:\t0", 0, 0, false},
		{"", 0, 0, false},
	} {
		ino, dev, ok := parseWatch([]byte(c.line))
		if ok != c.ok || ok && (ino != c.ino || dev != c.dev) {
			t.Errorf("%q: inode %#x of device %#x, %v; want %#x of %#x, %v", c.line, ino, dev, ok, c.ino, c.dev, c.ok)
		}
	}
}

func FuzzParseWatch(f *testing.F) {
	f.Add([]byte("inotify wd:1 ino:5a3 sdev:2d mask:fce ignored_mask:0"))
	f.Fuzz(func(t *testing.T, line []byte) {
		if _, _, ok := parseWatch(line); ok && len(line) < len("inotify ino:0 sdev:0") {
			t.Errorf("%q is a watch", line)
		}
	})
}

func TestMountDevice(t *testing.T) {
	const text = `22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
40 22 0:45 / /home/a/my\040work rw,noatime shared:9 - fuse.ttfs /home/a/my\040work rw,user_id=0
41 22 0:46 / /home/a/other rw - fuse.sshfs host: rw
42 22 0:47 / /home/a/twice rw - fuse.ttfs x rw
43 42 0:48 / /home/a/twice rw - fuse.ttfs x rw
44 43 0:49 / /home/a/twice rw - tmpfs x rw
45 22 4095:1048575 / /big rw - fuse.ttfs x rw
short
46 22 bad / /bad rw - fuse.ttfs x rw
`
	for dir, want := range map[string]uint64{
		"/home/a/my work": 45, "/home/a/my work/": 45, "/home/a/twice": 48, "/big": 4095<<20 | 1048575,
		"/": 0, "/home/a/other": 0, "/home/a": 0, "/bad": 0,
	} {
		if got, ok := mountDevice(text, dir); got != want || ok != (want != 0) {
			t.Errorf("%s: device %#x, %v; want %#x", dir, got, ok, want)
		}
	}
}

// fakeProc makes a directory like /proc: by pid and descriptor, what the descriptor is and its fdinfo.
func fakeProc(t *testing.T, all map[string][2]string) string {
	t.Helper()
	proc := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for at, fd := range all {
		pid, number := filepath.Split(at)
		for _, dir := range []string{"fd", "fdinfo"} {
			must(os.MkdirAll(filepath.Join(proc, pid, dir), 0o755))
		}
		must(os.Symlink(fd[0], filepath.Join(proc, pid, "fd", number)))
		must(os.WriteFile(filepath.Join(proc, pid, "fdinfo", number), []byte(fd[1]), 0o644))
	}
	return proc
}

func TestFindWatched(t *testing.T) {
	const head = "pos:\t0\nflags:\t02004000\nmnt_id:\t15\nino:\t1057\n"
	long := head
	for range 2000 { // more than one read
		long += "inotify wd:1 ino:7 sdev:99 mask:fce ignored_mask:0\n"
	}
	proc := fakeProc(t, map[string][2]string{
		"1/0":    {"/dev/null", ""},
		"1/4":    {"anon_inode:inotify", head + "inotify wd:2 ino:b sdev:2d mask:fce ignored_mask:0\ninotify wd:1 ino:a sdev:2d mask:fce ignored_mask:0\n"},
		"20/3":   {"anon_inode:[inotify]", head + "inotify wd:1 ino:c sdev:2d mask:fce ignored_mask:0"}, // no last newline
		"20/4":   {"anon_inode:[eventpoll]", head + "inotify wd:1 ino:d sdev:2d mask:fce\n"},
		"20/5":   {"anon_inode:inotify", head},
		"300/9":  {"anon_inode:inotify", long + "inotify wd:1 ino:e sdev:2d mask:fce ignored_mask:0\n"},
		"self/4": {"anon_inode:inotify", head + "inotify wd:1 ino:f sdev:2d mask:fce\n"},
	})
	if err := os.MkdirAll(filepath.Join(proc, "4000"), 0o755); err != nil { // ended meanwhile
		t.Fatal(err)
	}
	w := findWatched(proc, 0x2d, time.Hour)
	if got, want := slices.Sorted(maps.Keys(w.inos)), []uint64{0xa, 0xb, 0xc, 0xe}; w.all || !slices.Equal(got, want) {
		t.Errorf("watched: %#x, all %v; want %#x", got, w.all, want)
	}
	if w.none() || !w.has(0xa) || w.has(0xd) || w.has(0xf) {
		t.Errorf("none %v, has a %v, d %v, f %v", w.none(), w.has(0xa), w.has(0xd), w.has(0xf))
	}
	if w := findWatched(proc, 0x2e, time.Hour); !w.none() {
		t.Errorf("on another device: %v", w)
	}
}

// TestUnknownIsWatched: when it cannot be found out who watches, or not in time, everything counts as watched.
func TestUnknownIsWatched(t *testing.T) {
	proc := fakeProc(t, map[string][2]string{"1/0": {"/dev/null", ""}})
	for what, w := range map[string]watched{
		"no /proc": findWatched(filepath.Join(proc, "none"), 1, time.Hour),
		"no time":  findWatched(proc, 1, 0),
	} {
		if w.none() || !w.has(12345) {
			t.Errorf("%s: %v", what, w)
		}
	}
}

func BenchmarkFindWatched(b *testing.B) {
	for b.Loop() {
		findWatched("/proc", 1, time.Hour)
	}
}
