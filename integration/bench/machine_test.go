package bench

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/ttfs/ttfs/integration/rig"
	"golang.org/x/sys/unix"
)

// story is the lines of the third table of DESIGN section 8: what ttfs takes, and what people have for it.
type story struct{ lines [][]string }

func (s *story) add(what, ttfs, others, reach string) {
	s.lines = append(s.lines, []string{what, ttfs, others, reach})
}

// BenchmarkMachine is the time machine: beginning tasks, going back, and what the store grows by.
func BenchmarkMachine(b *testing.B) {
	s := &story{lines: [][]string{{"", "ttfs", "what people have", "to reach"}}}
	b.Run("big tree", func(b *testing.B) { bigTree(b, s) })
	b.Run("changed files", func(b *testing.B) { changedFiles(b, s) })
	b.Run("created tree", func(b *testing.B) { createdTree(b, s) })
	b.Run("big file", func(b *testing.B) { editsOfBigFile(b, s) })
	b.Run("growth", func(b *testing.B) { growth(b, s) })
	publish(b, "machine", "Medians, and in parentheses the 99th percentile.", grid(s.lines))
}

// makeTree makes a tree of files with contents of their own, a hundred in a directory.
func makeTree(b testing.TB, dir string, files int) {
	b.Helper()
	for i := range files {
		putFile(b, filepath.Join(dir, "d"+strconv.Itoa(i/10_000), "e"+strconv.Itoa(i/100), "f"+strconv.Itoa(i)), []byte(fmt.Sprintf("file %d\n", i)))
	}
}

func ms(times []time.Duration) string { return millis(nil, "", times) + " ms" }

// bigTree: a task and the undo of one changed file do not depend on the size of the tree; a shadow repository's do.
func bigTree(b *testing.B, s *story) {
	files := sizes().bigTree
	w := rig.New(b)
	makeTree(b, w.Dir, files)
	must(b, os.WriteFile(w.Path("one"), page, 0o644))
	var first, begin, undo [3][]time.Duration
	for i, k := range kinds {
		shadow := newShadow(b, w.Dir, k)
		timed(&first[i], func() { shadow.snapshot(b) })
		for range 3 {
			timed(&begin[i], func() { shadow.snapshot(b) })
			must(b, os.WriteFile(w.Path("one"), []byte("changed"), 0o644))
			timed(&undo[i], func() { shadow.undo(b) })
		}
	}
	w.Mount()
	var ours, back []time.Duration
	c := caller{ctl: w.Path(".tt/ctl")}
	for range max(sizes().cycles*4, 20) {
		timed(&ours, func() { must(b, c.task("round")) })
		must(b, os.WriteFile(w.Path("one"), []byte("changed"), 0o644))
		timed(&back, func() { c.must(b, "undo") })
	}
	if got := w.Read("one"); got != string(page) {
		b.Errorf("undo left %d bytes", len(got))
	}
	each := func(of [3][]time.Duration) string {
		text := ""
		for i, k := range kinds {
			text += fmt.Sprintf("%s %s, ", k.name, ms(of[i]))
		}
		return text[:len(text)-2]
	}
	s.add(fmt.Sprintf("begin a task, %d files", files), ms(ours), "shadow git: "+each(begin)+"; the first time "+each(first), "0.1 ms")
	s.add(fmt.Sprintf("undo one changed file, %d files", files), ms(back), "shadow git: "+each(undo), "2 ms")
	b.ReportMetric(0, "ns/op")
}

func (c *caller) must(b testing.TB, line string) {
	b.Helper()
	_, err := c.command(line)
	must(b, err)
}

// changedFiles: undo of N files beside cp of their before-images.
func changedFiles(b *testing.B, s *story) {
	w, bare := rig.New(b), rig.Disk(b)
	for i := range sizes().changed {
		content := append(fmt.Appendf(nil, "%d", i), page...)
		putFile(b, w.Path(filepath.Join("t", strconv.Itoa(i))), content)
		putFile(b, filepath.Join(bare, "before", strconv.Itoa(i)), content)
		putFile(b, filepath.Join(bare, "t", strconv.Itoa(i)), content[:100])
	}
	w.Mount()
	c := caller{ctl: w.Path(".tt/ctl")}
	var undo, redo, copied []time.Duration
	for round := range sizes().jobRounds {
		must(b, c.task("change"))
		for i := range sizes().changed {
			putFile(b, w.Path(filepath.Join("t", strconv.Itoa(i))), fmt.Appendf(nil, "changed %d %d", round, i))
		}
		timed(&undo, func() { c.must(b, "undo") })
		timed(&redo, func() { c.must(b, "redo") })
		c.must(b, "undo")
		timed(&copied, func() {
			out, err := exec.Command("cp", "-r", filepath.Join(bare, "before")+"/.", filepath.Join(bare, "t")).CombinedOutput()
			if err != nil {
				b.Fatalf("cp: %v: %s", err, out)
			}
		})
	}
	s.add(fmt.Sprintf("undo of %d changed files of 4 KiB; redo", sizes().changed),
		fmt.Sprintf("%s, %.2f times `cp`; %s", ms(undo), float64(median(undo))/float64(median(copied)), ms(redo)),
		"`cp` of the before-images: "+ms(copied), "1.2 times `cp`")
	b.ReportMetric(0, "ns/op")
}

// createdTree: undo of a tree that the task made is one rename.
func createdTree(b *testing.B, s *story) {
	w, bare := mountMust(b), rig.Disk(b)
	c := caller{ctl: w.Path(".tt/ctl")}
	must(b, c.task("make"))
	makeTree(b, w.Path("made"), sizes().createdTree)
	var undo, redo, removed []time.Duration
	for range sizes().jobRounds {
		timed(&undo, func() { c.must(b, "undo") })
		if _, err := os.Lstat(w.Path("made")); !os.IsNotExist(err) {
			b.Errorf("undo left the tree: %v", err)
		}
		timed(&redo, func() { c.must(b, "redo") })
	}
	for range min(sizes().jobRounds, 3) {
		makeTree(b, filepath.Join(bare, "made"), sizes().createdTree)
		timed(&removed, func() { must(b, os.RemoveAll(filepath.Join(bare, "made"))) })
	}
	s.add(fmt.Sprintf("undo of a created tree of %d files; redo", sizes().createdTree), ms(undo)+"; "+ms(redo), "`rm -rf` on the bare disk: "+ms(removed), "10 ms")
	b.ReportMetric(0, "ns/op")
}

// editsOfBigFile: ten edits of one byte, each in a task or snapshot of its own.
func editsOfBigFile(b *testing.B, s *story) {
	big := make([]byte, sizes().editedBytes)
	for i := 0; i < len(big); i += sha256.Size { // nothing that compresses
		sum := sha256.Sum256(strconv.AppendInt(nil, int64(i), 10))
		copy(big[i:], sum[:])
	}
	edit := func(path string, i int) {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		must(b, err)
		_, err = f.WriteAt([]byte{'x'}, int64(i)*int64(len(big)/10)+12_345)
		must(b, err)
		must(b, f.Close())
	}
	w := rig.New(b)
	putFile(b, w.Path("big"), big)
	store := filepath.Join(rig.Disk(b), "store")
	w.Mount("--store", store)
	before := diskBytes(b, store)
	c := caller{ctl: w.Path(".tt/ctl")}
	var ours []time.Duration
	for i := range 10 {
		must(b, c.task("edit"))
		timed(&ours, func() { edit(w.Path("big"), i) })
	}
	w.Unmount()
	grown := diskBytes(b, store) - before
	bare := rig.Disk(b)
	putFile(b, filepath.Join(bare, "big"), big)
	shadow := newShadow(b, bare, kinds[0])
	shadow.snapshot(b)
	before = diskBytes(b, shadow.git)
	var theirs []time.Duration
	for i := range 10 {
		edit(filepath.Join(bare, "big"), i)
		timed(&theirs, func() { shadow.snapshot(b) })
	}
	s.add(fmt.Sprintf("ten 1-byte edits of a %d MB file", len(big)>>20), fmt.Sprintf("+%.2f MB in all, %s each", megabytes(grown), ms(ours)),
		fmt.Sprintf("shadow git: +%.0f MB, %s each", megabytes(diskBytes(b, shadow.git)-before), ms(theirs)), "1.3 MB in all, 1 ms each")
	b.ReportMetric(0, "ns/op")
}

// growth is what the store takes for a byte that was overwritten, made or appended, once the workspace is detached.
func growth(b *testing.B, s *story) {
	work := []struct {
		what  string
		reach string
		do    func(dir string) (bytes int64)
	}{
		{"overwritten", "0.6", func(dir string) int64 {
			return eachFile(b, filepath.Join(dir, "tree"), func(path string, size int64) {
				must(b, os.WriteFile(path, []byte("all new\n"), 0o644))
			})
		}},
		{"made", "0", func(dir string) int64 {
			out, err := exec.Command("cp", "-r", filepath.Join(assetsDir(), "tree"), filepath.Join(dir, "made")).CombinedOutput()
			if err != nil {
				b.Fatalf("cp: %v: %s", err, out)
			}
			return eachFile(b, filepath.Join(dir, "made"), func(string, int64) {})
		}},
		{"appended", "0", func(dir string) int64 {
			return eachFile(b, filepath.Join(dir, "tree"), func(path string, size int64) {
				f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
				must(b, err)
				_, err = f.Write(make([]byte, size))
				must(b, err)
				must(b, f.Close())
			})
		}},
	}
	makeAssets(b)
	line, reach := "", ""
	for _, one := range work {
		w := rig.New(b)
		w.Run(w.Dir, "cp", "-r", filepath.Join(assetsDir(), "tree"), "tree").OK()
		store := filepath.Join(rig.Disk(b), "store")
		w.Mount("--store", store)
		before := diskBytes(b, store)
		w.Task("measured")
		bytes := one.do(w.Dir)
		w.Unmount()
		line += fmt.Sprintf("%.2f %s, ", float64(diskBytes(b, store)-before)/float64(bytes), one.what)
		reach += one.reach + " " + one.what + ", "
	}
	s.add("store growth for a byte", line[:len(line)-2], "whole files", reach[:len(reach)-2])
	b.ReportMetric(0, "ns/op")
}

func eachFile(b testing.TB, dir string, do func(path string, size int64)) (bytes int64) {
	b.Helper()
	must(b, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			bytes += info.Size()
			do(path, info.Size())
		}
		return err
	}))
	return bytes
}

// diskBytes is what the files of a tree take on the disk, without what was reserved for them past their ends.
func diskBytes(b testing.TB, dir string) (bytes int64) {
	b.Helper()
	must(b, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		err = unix.Lstat(path, &st)
		bytes += min(st.Blocks*512, st.Size)
		return err
	}))
	return bytes
}

func megabytes(n int64) float64 { return float64(n) / 1e6 }
