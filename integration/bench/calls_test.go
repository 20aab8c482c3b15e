package bench

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

const calls = 200 // a round

var page = make([]byte, 4096)

// each prepares some files and times one call on each of as many names.
func each(b *testing.B, files int, call func(path string) error) round {
	return round{
		prepare: func(dir string) {
			for i := range files {
				must(b, os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), page, 0o644))
			}
		},
		measure: func(dir string) []time.Duration {
			times := make([]time.Duration, calls)
			for i := range times {
				path := filepath.Join(dir, strconv.Itoa(i))
				start := time.Now()
				err := call(path)
				times[i] = time.Since(start)
				must(b, err)
			}
			return times
		},
	}
}

// again does the call once on every file before it is timed: the task has
// touched them all by then.
func again(r round) round {
	return round{r.prepare, func(dir string) []time.Duration {
		r.measure(dir)
		return r.measure(dir)
	}}
}

func BenchmarkCreateWrite4KClose(b *testing.B) {
	compare(b, each(b, 0, func(path string) error { return os.WriteFile(path, page, 0o644) }))
}

func BenchmarkOpenRead4KClose(b *testing.B) {
	buffer := make([]byte, len(page))
	compare(b, each(b, calls, func(path string) error {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = f.Read(buffer)
		return err
	}))
}

func BenchmarkStat(b *testing.B) {
	compare(b, each(b, calls, func(path string) error {
		_, err := os.Lstat(path)
		return err
	}))
}

func BenchmarkStatMissing(b *testing.B) {
	compare(b, each(b, 0, func(path string) error {
		if _, err := os.Lstat(path); err == nil {
			return os.ErrExist
		}
		return nil
	}))
}

func BenchmarkRename(b *testing.B) {
	compare(b, each(b, calls, func(path string) error { return os.Rename(path, path+"n") }))
}

func BenchmarkUnlink(b *testing.B) {
	compare(b, each(b, calls, func(path string) error { return os.Remove(path) }))
}

func BenchmarkRewriteFirstTouch(b *testing.B) {
	compare(b, each(b, calls, func(path string) error { return os.WriteFile(path, page, 0o644) }))
}

func BenchmarkRewriteAgain(b *testing.B) {
	compare(b, again(each(b, calls, func(path string) error { return os.WriteFile(path, page, 0o644) })))
}

func BenchmarkPwrite100(b *testing.B) {
	compare(b, each(b, calls, func(path string) error {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = f.WriteAt(page[:100], 1000)
		return err
	}))
}

func BenchmarkPwrite4KNewFile(b *testing.B) {
	compare(b, round{func(string) {}, func(dir string) []time.Duration {
		f, err := os.Create(filepath.Join(dir, "f"))
		must(b, err)
		defer f.Close()
		times := make([]time.Duration, calls)
		for i := range times {
			start := time.Now()
			_, err := f.WriteAt(page, int64(i)*int64(len(page)))
			times[i] = time.Since(start)
			must(b, err)
		}
		return times
	}})
}
