package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

var page = make([]byte, 4096)

// callRows are the first table of DESIGN section 8, with what each is to reach in microseconds over io_uring; classic
// may take twice that.
var callRows = []row{
	{"create + write 4 KiB + close", "105"},
	{"open + read 4 KiB + close", "28"},
	{"stat, not cached", "10"},
	{"stat of a missing name", "18"},
	{"the same, cached", "7"},
	{"rewrite 4 KiB (O_TRUNC), first touch", "95"},
	{"the same, later in the task", "80"},
	{"open + pwrite 100 B + close", "40"},
	{"pwrite 4 KiB, new file", "0.8"},
	{"pwrite 4 KiB, existing content", "14"},
	{"rename", "60"},
	{"unlink", "32"},
}

// BenchmarkCalls is one call at a time, from one process.
func BenchmarkCalls(b *testing.B) {
	t := newTable("calls", "call", callRows)
	var courses []string
	for _, c := range callCourses(sizes()) {
		courses = append(courses, c.name)
	}
	sides := startSides(b, t, true)
	compare(b, t, sides, courses, sizes().callRounds)
	t.publish(b, fmt.Sprintf("µs, median (99th percentile) of %d rounds of %d calls.", sizes().callRounds, sizes().calls), micros)
}

// callCourses are one course for each row, but where one row continues another.
func callCourses(s size) []course {
	files := step{run: makeFiles}
	return []course{
		{name: "create", steps: []step{{row: callRows[0].name, run: each(func(path string) error { return put(path, unix.O_CREAT|unix.O_EXCL) })}}},
		{name: "read", steps: []step{files, {row: callRows[1].name, run: each(readOne)}}},
		{name: "stat", steps: []step{files, flushed, {row: callRows[2].name, run: each(statOne)}}},
		{name: "missing", steps: []step{
			{row: callRows[3].name, run: each(missingOne)},
			{row: callRows[4].name, run: each(missingOne), sameTask: true},
		}},
		{name: "rewrite", steps: []step{files,
			{row: callRows[5].name, run: each(func(path string) error { return put(path, unix.O_TRUNC) })},
			{row: callRows[6].name, run: each(func(path string) error { return put(path, unix.O_TRUNC) }), sameTask: true},
		}},
		{name: "pwrite", steps: []step{files, {row: callRows[7].name, run: each(pwriteOne)}}},
		{name: "pages", steps: []step{
			{row: callRows[8].name, run: pages(unix.O_CREAT)},
			{row: callRows[9].name, run: pages(0)},
		}},
		{name: "rename", steps: []step{files, {row: callRows[10].name, run: each(func(path string) error { return unix.Rename(path, path+"n") })}}},
		{name: "unlink", steps: []step{files, {row: callRows[11].name, run: each(unix.Unlink)}}},
	}
}

// each times one call on each of as many names. Calls are made directly: package os adds calls of its own to some.
func each(call func(path string) error) func(*caller, string) ([]time.Duration, error) {
	return func(c *caller, dir string) ([]time.Duration, error) {
		times := make([]time.Duration, c.calls)
		for i := range times {
			path := filepath.Join(dir, strconv.Itoa(i))
			start := time.Now()
			err := call(path)
			times[i] = time.Since(start)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
		}
		return times, nil
	}
}

func makeFiles(c *caller, dir string) ([]time.Duration, error) {
	return each(func(path string) error { return put(path, unix.O_CREAT) })(c, dir)
}

// flushed is the step that makes the kernel forget the names below the side's mount, and no others: a remount drops
// the unused dentries of that filesystem (fs/super.c, reconfigure_super). The bare disk stays warm, as it is for the
// peers' daemons.
var flushed = step{sameTask: true, run: func(c *caller, dir string) ([]time.Duration, error) {
	if c.mount == "" {
		return nil, nil
	}
	if err := unix.Mount("", c.mount, "", unix.MS_REMOUNT, ""); err != nil {
		return nil, fmt.Errorf("remount %s: %w", c.mount, err)
	}
	return nil, nil
}}

func put(path string, flags int) error {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC|flags, 0o644)
	if err != nil {
		return err
	}
	if _, err := unix.Write(fd, page); err != nil {
		unix.Close(fd)
		return err
	}
	return unix.Close(fd)
}

func readOne(path string) error {
	var buffer [4096]byte
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if n, err := unix.Read(fd, buffer[:]); err != nil || n != len(buffer) {
		unix.Close(fd)
		return fmt.Errorf("read %d bytes: %w", n, err)
	}
	return unix.Close(fd)
}

func statOne(path string) error {
	var st unix.Stat_t
	return unix.Lstat(path, &st)
}

func missingOne(path string) error {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != unix.ENOENT {
		return fmt.Errorf("%v, want ENOENT", err)
	}
	return nil
}

func pwriteOne(path string) error {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if _, err := unix.Pwrite(fd, page[:100], 1000); err != nil {
		unix.Close(fd)
		return err
	}
	return unix.Close(fd)
}

// pages writes as many pages of one file through one descriptor. Of a file that was there its agent knows all: what it
// wrote.
func pages(flags int) func(*caller, string) ([]time.Duration, error) {
	return func(c *caller, dir string) ([]time.Duration, error) {
		fd, err := unix.Open(filepath.Join(dir, "pages"), unix.O_RDWR|unix.O_CLOEXEC|flags, 0o644)
		if err != nil {
			return nil, err
		}
		defer unix.Close(fd)
		times := make([]time.Duration, c.calls)
		for i := range times {
			start := time.Now()
			_, err := unix.Pwrite(fd, page, int64(i)*int64(len(page)))
			times[i] = time.Since(start)
			if err != nil {
				return nil, &os.PathError{Op: "pwrite", Path: "pages", Err: err}
			}
		}
		return times, nil
	}
}
