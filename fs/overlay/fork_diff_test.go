package overlay

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// TestDiffFork: the diff of a fork is what it changed against what it was made of, whichever agent has, and whatever the parent
// did since; after a merge, what came after that.
func TestDiffFork(t *testing.T) {
	s := forkTree(t)
	f := s.fork("one")
	heads := func() (out []string) {
		t.Helper()
		var w bytes.Buffer
		s.must(s.e.DiffFork(&w, "one"))
		for line := range strings.Lines(w.String()) {
			line = strings.TrimSuffix(line, "\n")
			if strings.HasPrefix(line, "---") || strings.HasPrefix(line, "+++") {
				_, line, _ = strings.Cut(line, " ")
			} else if strings.HasPrefix(line, "+") || strings.HasPrefix(line, "-") {
				if len(line) > 20 {
					continue
				}
			} else if !strings.Contains(line, "mode") && !strings.HasPrefix(line, "Binary") {
				continue
			}
			out = append(out, line)
		}
		return out
	}
	is := func(what string, want ...string) {
		t.Helper()
		if got := heads(); !slices.Equal(got, want) {
			t.Errorf("%s: the diff has\n%q, should have\n%q", what, got, want)
		}
	}
	is("nothing")
	f.must(f.rewrite("a", "one\n"))
	f.agent = "another"
	f.must(f.rewrite("a", "two\n"))
	f.must(f.rename("d/e", "E", 0))
	f.must(f.chmod("empty", 0o700))
	f.must(f.mkdirAll("n"))
	f.must(f.create("n/new", "new\n", 0o600))
	f.must(f.symlink("a", "n/link"))
	f.must(f.create("gone", "", 0o600))
	f.must(f.unlink("gone"))
	s.must(s.rewrite("a", "the parent's\n"))
	s.must(s.create("parents", "", 0o600))
	first := []string{"/dev/null", "b/E/c", "+gamma", "a/a", "b/a", "-alpha", "+two", "a/d/e/c", "/dev/null", "-gamma",
		"directory empty: mode 0711 -> 0700", "/dev/null", "b/n/link", "+a", "/dev/null", "b/n/new", "+new"}
	is("changed", first...)
	s.must(s.rewrite("a", "alpha"))
	s.merged(MergeOptions{})
	is("merged")
	f.must(f.rewrite("n/new", "newer\n"))
	f.must(f.create("n/more", "more\n", 0o600))
	f.must(f.unlink("n/link"))
	f.must(f.rename("E/c", "E/C", 0))
	f.must(f.create("big", strings.Repeat("\x00", 9<<20), 0o600))
	second := []string{"/dev/null", "b/E/C", "+gamma", "a/E/c", "/dev/null", "-gamma", "Binary files /dev/null and b/big differ",
		"a/n/link", "/dev/null", "-a", "/dev/null", "b/n/more", "+more", "a/n/new", "b/n/new", "-new", "+newer"}
	is("changed after a merge", second...)
	s.forget(1)
	s.reopen()
	f = s.forked("one")
	is("after a remount", second...)
	s.merged(MergeOptions{})
	is("merged again")
	f.must(f.write("big", 5, "x"))
	is("a big file", "Binary files a/big and b/big differ")
	f.must(f.write("big", 5, "\x00"))
	is("a big file as it was")
}
