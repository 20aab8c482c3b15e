package bench

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// jobRows are the second table of DESIGN section 8, as ratios to native.
var jobRows = []row{
	{"big file, sequential write", "1.05"},
	{"big file, sequential read", "1.05"},
	{"big file, random read of 4 KiB", "1.05"},
	{"big file, random write of 4 KiB", "1.05"},
	{"`git clone --local`", "2.4"},
	{"`git status`, warm", "1.1"},
	{"`tar x`", "3.2"},
	{"reading every file", "1.9"},
	{"`grep -r`, warm", "1.5"},
	{"`grep -r`, cold dentries", "5.5"},
	{"`rm -rf`", "1.2"},
	{"`go build` of a real module", "1.05"},
	{"`npm ci`", "1.5"},
}

// BenchmarkJobs is whole programs. Each course has sides of its own, so that one does not inherit another's history.
func BenchmarkJobs(b *testing.B) {
	t := newTable("jobs", "job", jobRows)
	assets := makeAssets(b)
	for _, course := range jobCourses() {
		if why := assets.missing[course.name]; why != "" {
			t.note("Not measured: `%s`: %s.", course.name, why)
			continue
		}
		b.Run(course.name, func(b *testing.B) {
			compare(b, t, startSides(b, t, !course.seconds || !sizes().quick), []string{course.name}, course.rounds(sizes()))
		})
	}
	t.publish(b, fmt.Sprintf("Ratio of medians of %d rounds to native, for native the time. The tree has %d files.", sizes().jobRounds, assets.files), ratios)
}

func jobCourses() []course {
	return []course{
		{name: "big files", steps: []step{
			settled,
			{row: jobRows[0].name, run: bigWrite},
			{row: jobRows[1].name, run: bigRead(true)},
			{row: jobRows[2].name, run: bigRead(false)},
			{row: jobRows[3].name, run: bigOverwrite},
		}},
		{name: "git", steps: []step{
			settled,
			{row: jobRows[4].name, run: sh(`git clone -q --local --no-hardlinks "$1/repo" clone`)},
			{run: sh(`cd clone && git status --porcelain`)},
			{row: jobRows[5].name, run: sh(`cd clone && git status --porcelain`), sameTask: true},
		}},
		{name: "tree", steps: []step{
			settled,
			{row: jobRows[6].name, run: sh(`tar xf "$1/tree.tar"`)},
			{row: jobRows[7].name, run: sh(`find tree -type f -print0 | xargs -0 cat >/dev/null`)},
			{row: jobRows[8].name, run: sh(`! grep -rc nothing-is-like-this tree >/dev/null`)},
			flushed,
			{row: jobRows[9].name, run: sh(`! grep -rc nothing-is-like-this tree >/dev/null`), sameTask: true},
			{row: jobRows[10].name, run: sh(`rm -rf tree`)},
		}},
		{name: "go build", seconds: true, steps: []step{
			settled,
			// Each build compiles anew what depends on a file that was never seen before.
			{run: sh(`tar xf "$1/module.tar"; cd module; go build -trimpath -o out ./cmd/ttfs; echo "// $(date +%s%N) $$" >>journal/doc.go`)},
			{row: jobRows[11].name, run: sh(`cd module && go build -trimpath -o out ./cmd/ttfs`)},
		}},
		{name: "npm ci", seconds: true, steps: []step{
			settled,
			{run: sh(`cp "$1"/npm/package*.json .`)},
			{row: jobRows[12].name, run: sh(`npm ci --offline --no-audit --no-fund --loglevel error --cache "$1/npm/cache"`)},
		}},
	}
}

// rounds is how often a job is done: what takes seconds is done once in a quick run.
func (c course) rounds(s size) int {
	if c.seconds && s.quick {
		return 1
	}
	return s.jobRounds
}

// settled lets the disk finish what the side before has left to be written.
var settled = step{sameTask: true, run: func(c *caller, _ string) ([]time.Duration, error) {
	f, err := os.Open(c.assets)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return nil, unix.Syncfs(int(f.Fd()))
}}

// sh times one script with the round's directory current; $1 are the assets.
func sh(script string) func(*caller, string) ([]time.Duration, error) {
	return func(c *caller, dir string) ([]time.Duration, error) {
		cmd := exec.Command("sh", "-e", "-c", script, "sh", c.assets)
		var said bytes.Buffer
		cmd.Dir, cmd.Stderr = dir, &said
		start := time.Now()
		err := cmd.Run()
		took := time.Since(start)
		if err != nil {
			return nil, fmt.Errorf("%s: %w: %s", script, err, firstLine(said.String()))
		}
		return []time.Duration{took}, nil
	}
}

const block = 128 << 10

func bigWrite(c *caller, dir string) ([]time.Duration, error) {
	return bigFile(dir, unix.O_CREAT|unix.O_WRONLY, func(fd int) error {
		buffer := make([]byte, block)
		for at := int64(0); at < c.bigFileBytes; at += block {
			if _, err := unix.Pwrite(fd, buffer, at); err != nil {
				return err
			}
		}
		return nil
	})
}

func bigRead(sequential bool) func(*caller, string) ([]time.Duration, error) {
	return func(c *caller, dir string) ([]time.Duration, error) {
		return bigFile(dir, unix.O_RDONLY, func(fd int) error {
			buffer, pages := make([]byte, block), c.bigFileBytes/block
			if !sequential {
				buffer, pages = buffer[:len(page)], c.bigFileBytes/int64(len(page))/4
			}
			places := rand.New(rand.NewPCG(1, 1))
			for i := range pages {
				at := i * block
				if !sequential {
					at = places.Int64N(c.bigFileBytes/int64(len(page))) * int64(len(page))
				}
				if n, err := unix.Pread(fd, buffer, at); err != nil || n != len(buffer) {
					return errors.Join(fmt.Errorf("%d bytes at %d", n, at), err)
				}
			}
			return nil
		})
	}
}

func bigOverwrite(c *caller, dir string) ([]time.Duration, error) {
	return bigFile(dir, unix.O_RDWR, func(fd int) error {
		places := rand.New(rand.NewPCG(2, 2))
		for range c.bigFileBytes / int64(len(page)) / 4 {
			if _, err := unix.Pwrite(fd, page, places.Int64N(c.bigFileBytes/int64(len(page)))*int64(len(page))); err != nil {
				return err
			}
		}
		return nil
	})
}

// bigFile times a loop over one file, with its open and close.
func bigFile(dir string, flags int, loop func(fd int) error) ([]time.Duration, error) {
	start := time.Now()
	fd, err := unix.Open(filepath.Join(dir, "big"), flags|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(loop(fd), unix.Close(fd)); err != nil {
		return nil, err
	}
	return []time.Duration{time.Since(start)}, nil
}

// putFile writes one file of a tree that is being made.
func putFile(b testing.TB, path string, content []byte) {
	b.Helper()
	if err := os.WriteFile(path, content, 0o644); err != nil {
		must(b, os.MkdirAll(filepath.Dir(path), 0o755))
		must(b, os.WriteFile(path, content, 0o644))
	}
}
