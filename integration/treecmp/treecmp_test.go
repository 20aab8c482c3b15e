package treecmp

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func grow(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	must(t, os.Mkdir(at("sub"), 0o755))
	must(t, os.Mkdir(at("empty"), 0o700))
	must(t, os.Mkdir(at(".tt"), 0o700))
	must(t, os.WriteFile(at(".tt/inside"), nil, 0o600))
	for _, name := range []string{"a", "b", "sub/c", "new\nline", "raw\xff\xfe"} {
		must(t, os.WriteFile(at(name), []byte("content of "+name), 0o644))
	}
	must(t, os.Link(at("a"), at("sub/a2")))
	must(t, os.Symlink("nowhere", at("link")))
	must(t, unix.Mkfifo(at("fifo"), 0o600))
	must(t, os.WriteFile(at("sparse"), []byte("head"), 0o644))
	must(t, os.Truncate(at("sparse"), 1<<20))
	return dir
}

func take(t *testing.T, dir string) Tree {
	t.Helper()
	tree, err := Take(dir)
	must(t, err)
	return tree
}

// TestDiffSeesEveryProperty changes one property at a time and wants exactly
// that one named: a judge that misses one would let the filesystem lose it.
func TestDiffSeesEveryProperty(t *testing.T) {
	now := time.Unix(1_700_000_000, 123)
	for _, c := range []struct {
		name   string
		change func(at func(string) string) error
		want   string // in one of the lines
	}{
		{"content", func(at func(string) string) error { return os.WriteFile(at("b"), []byte("CONTENT OF b"), 0) }, `"b": content`},
		{"size", func(at func(string) string) error { return os.WriteFile(at("b"), nil, 0) }, `"b": size`},
		{"mode", func(at func(string) string) error { return os.Chmod(at("b"), 0o600) }, `"b": mode: want 0644, is 0600`},
		{"setuid", func(at func(string) string) error { return unix.Chmod(at("b"), 0o4644) }, `"b": mode: want 0644, is 4644`},
		{"mtime", func(at func(string) string) error { return os.Chtimes(at("b"), now, now) }, `"b": mtime`},
		{"directory mtime", func(at func(string) string) error { return os.Chtimes(at("empty"), now, now) }, `"empty": mtime`},
		{"gone", func(at func(string) string) error { return os.Remove(at("new\nline")) }, `"new\nline": file is missing`},
		{"raw name gone", func(at func(string) string) error { return os.Remove(at("raw\xff\xfe")) }, `"raw\xff\xfe": file is missing`},
		{"new", func(at func(string) string) error { return os.Mkdir(at("more"), 0o755) }, `"more": dir should not be there`},
		{"target", func(at func(string) string) error {
			return os.Rename(symlink(at("link2"), "elsewhere"), at("link"))
		}, `"link": target`},
		{"type", func(at func(string) string) error {
			if err := os.Remove(at("fifo")); err != nil {
				return err
			}
			return os.Mkdir(at("fifo"), 0o700)
		}, `"fifo": want a fifo, is a dir`},
		{"hard link broken", func(at func(string) string) error {
			if err := os.Remove(at("sub/a2")); err != nil {
				return err
			}
			return os.WriteFile(at("sub/a2"), []byte("content of a"), 0o644)
		}, `"a": hard links`},
		{"link count", func(at func(string) string) error { return os.Remove(at("sub/a2")) }, `"a": link count: want 2, is 1`},
		{"hole filled", func(at func(string) string) error { return os.WriteFile(at("sparse"), sparseBytes(), 0) }, `"sparse": data extents`},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := grow(t)
			before := take(t, dir)
			if lines := Diff(before, take(t, dir)); len(lines) != 0 {
				t.Fatalf("nothing changed, but: %q", lines)
			}
			must(t, c.change(func(name string) string { return filepath.Join(dir, name) }))
			report := Report(before, take(t, dir))
			if !strings.Contains(report, c.want) {
				t.Errorf("want a line with %q, got:\n%s", c.want, report)
			}
		})
	}
}

func symlink(path, target string) string {
	if err := os.Symlink(target, path); err != nil {
		panic(err)
	}
	return path
}

func sparseBytes() []byte {
	b := make([]byte, 1<<20)
	copy(b, "head")
	return b
}

func TestTakeLeavesOutTheControlDirectory(t *testing.T) {
	for path := range take(t, grow(t)) {
		if strings.HasPrefix(path, ".tt") {
			t.Errorf("%q is in the picture", path)
		}
	}
}
