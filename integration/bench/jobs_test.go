package bench

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ttfs/ttfs/integration/rig"
)

// source is a real repository of more than a thousand files on the bare disk,
// and a tar of it.
func source(b *testing.B) (repository, tarball string, w *rig.Workspace) {
	b.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/cockroachdb/pebble/v2").Output()
	must(b, err)
	w = rig.New(b)
	w.Sh(`cp -r "$1" repo; chmod -R u+w repo; tar cf t.tar repo; cd repo; git init -q; git add -A; git commit -qm start; git gc -q`,
		strings.TrimSpace(string(out))).OK()
	return w.Path("repo"), w.Path("t.tar"), w
}

// job times one script with the round's directory current; prepare comes before,
// untimed. $1 is the repository, $2 the tar.
func job(b *testing.B, prepare, script string) {
	b.Helper()
	repository, tarball, w := source(b)
	compare(b, round{
		prepare: func(dir string) { w.Run(dir, "sh", "-e", "-c", prepare, "sh", repository, tarball).OK() },
		measure: func(dir string) []time.Duration {
			start := time.Now()
			w.Run(dir, "sh", "-e", "-c", script, "sh", repository, tarball).OK()
			return []time.Duration{time.Since(start)}
		},
	})
}

func BenchmarkTar(b *testing.B)      { job(b, ":", `tar xf "$2"`) }
func BenchmarkGitClone(b *testing.B) { job(b, ":", `git clone -q --local --no-hardlinks "$1" clone`) }
func BenchmarkGitStatus(b *testing.B) {
	job(b, `git clone -q --local --no-hardlinks "$1" clone; cd clone; git status >/dev/null`, `cd clone; git status --porcelain`)
}
func BenchmarkReadAll(b *testing.B) { job(b, `tar xf "$2"`, `cat $(find repo -type f) >/dev/null`) }
func BenchmarkGrep(b *testing.B) {
	job(b, `tar xf "$2"`, `grep -rc nothing-like-this repo >/dev/null || :`)
}
func BenchmarkRemoveAll(b *testing.B) {
	job(b, `tar xf "$2"`, `rm -rf repo`)
}
func BenchmarkGoBuild(b *testing.B) {
	job(b, `tar xf "$2"; cd repo; go build ./internal/base`, `cd repo; touch internal/base/*.go; go build -o out ./internal/base`)
}

// BenchmarkTimeMachine is a tree of 100,000 files: beginning a task, and undo
// and redo of one changed file.
func BenchmarkTimeMachine(b *testing.B) {
	w := rig.New(b)
	for i := range 100_000 {
		dir := w.Path(filepath.Join("d"+strings.Repeat("x", i%10), "e"+strings.Repeat("y", i/10%50)))
		if i < 500 {
			must(b, os.MkdirAll(dir, 0o755))
		}
		must(b, os.WriteFile(filepath.Join(dir, "f"+time.Duration(i).String()), nil, 0o644))
	}
	must(b, os.WriteFile(w.Path("one"), page, 0o644))
	w.Mount()
	var begin, undo, redo []time.Duration
	timed := func(times *[]time.Duration, call func()) {
		start := time.Now()
		call()
		*times = append(*times, time.Since(start))
	}
	b.ResetTimer()
	for range b.N {
		timed(&begin, func() { w.Must("task round") })
		must(b, os.WriteFile(w.Path("one"), []byte("changed"), 0o644))
		timed(&undo, func() { w.Must("undo") })
		timed(&redo, func() { w.Must("redo") })
	}
	b.StopTimer()
	report(b, "begin", begin)
	report(b, "undo", undo)
	report(b, "redo", redo)
	b.ReportMetric(0, "ns/op")
}
