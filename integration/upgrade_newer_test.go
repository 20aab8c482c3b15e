package integration

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ttfs/ttfs/integration/rig"
)

// TestNewerIsRefused: a store of which any part says that it is of a later version is refused by every verb with a message
// that says what to do, and nothing of it or of the workspace changes; with the version put back, it is whole. What says
// its version inside of a database is tested in journal and cas.
func TestNewerIsRefused(t *testing.T) {
	newer := fmt.Sprintf("ttfs %d\n", formatNow(t)+1)
	image := example(t, "format1.img.zst")
	want := wanted(t, "format1.want")
	w := rig.Image(t, image)
	tt := func(name string) string { return filepath.Join(w.Dir, ".tt", name) }
	for _, part := range []struct {
		name  string
		raise func() (back func(), err error)
	}{
		{"format", func() (func(), error) {
			return func() { _ = os.WriteFile(tt("format"), []byte("ttfs 1\n"), 0o600) }, os.WriteFile(tt("format"), []byte(newer), 0o600)
		}},
		{"segment", func() (func(), error) { return rewritten(tt("journal/00000001.seg"), raiseSegment) }},
		{"index", func() (func(), error) { return raiseMarker(tt("journal/index")) }},
		{"blobs", func() (func(), error) { return raiseMarker(tt("cas")) }},
	} {
		before := w.Snapshot()
		back, err := part.raise()
		if err != nil {
			t.Fatalf("%s: %v", part.name, err)
		}
		store := storeBytes(t, tt("."))
		for _, verb := range [][]string{{"mount", w.Dir}, {"log"}, {"undo"}, {"redo"}, {"switch", "0"}, {"show", "5"}, {"prune", "--keep", "1s"}, {"fsck"}, {"fsck", "--repair"}} {
			r := w.TTFS(verb...)
			if r.Code == 0 || !strings.Contains(r.Stderr, "newer one") {
				t.Errorf("%s: ttfs %s: %s", part.name, verb[0], r)
			}
			if changed := unlike(store, storeBytes(t, tt("."))); changed != "" {
				t.Fatalf("%s: ttfs %v changed the store:\n%s", part.name, verb, changed)
			}
		}
		w.Same(part.name+" was refused", before)
		back()
	}
	w.TTFS("log").OK()
	w.Mount()
	if got := strings.TrimSuffix(picture(t, w.Path("many")), "\n"); got != want["live many"] {
		t.Errorf("with the versions put back:\n%s", unlike(want["live many"], got))
	}
	w.Unmount()
	w.TTFS("fsck").OK()
}

// rewritten changes the bytes of a file, and can put them back.
func rewritten(path string, change func([]byte)) (back func(), err error) {
	old, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	b := append([]byte(nil), old...)
	change(b)
	return func() { _ = os.WriteFile(path, old, 0o600) }, os.WriteFile(path, b, 0o600)
}

// raiseSegment raises the version in a segment's header (docs/format.md).
func raiseSegment(b []byte) {
	binary.LittleEndian.PutUint32(b[8:], binary.LittleEndian.Uint32(b[8:])+1)
	binary.LittleEndian.PutUint32(b[36:], crc32.Checksum(b[:36], crc32.MakeTable(crc32.Castagnoli)))
}

// raiseMarker raises the version that a pebble database has in the name of a file.
func raiseMarker(dir string) (back func(), err error) {
	names, err := filepath.Glob(filepath.Join(dir, "marker.format-version.*"))
	if err != nil || len(names) != 1 {
		return nil, fmt.Errorf("markers: %q, %v", names, err)
	}
	var iter, version int
	if _, err := fmt.Sscanf(filepath.Base(names[0]), "marker.format-version.%d.%d", &iter, &version); err != nil {
		return nil, err
	}
	newer := filepath.Join(dir, fmt.Sprintf("marker.format-version.%06d.%03d", iter, version+1))
	return func() { _ = os.Rename(newer, names[0]) }, os.Rename(names[0], newer)
}

// storeBytes is a line for each file of a store with what is in it. Locks have nothing in them, and daemon.log is told why a
// mount failed.
func storeBytes(t *testing.T, dir string) string {
	t.Helper()
	r, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, e := range r {
		path := filepath.Join(dir, e.Name())
		switch {
		case e.Name() == "daemon.log" || strings.EqualFold(e.Name(), "lock"):
		case e.IsDir():
			b.WriteString(storeBytes(t, path))
		case e.Type().IsRegular():
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&b, "%s %d bytes %08x\n", path, len(content), crc32.ChecksumIEEE(content))
		default:
			fmt.Fprintf(&b, "%s\n", path)
		}
	}
	return b.String()
}

// TestExampleIsOfToday: the newest example (TestUpgrade) has the version of every part that a store of today has, so that none is raised
// without an example. What of the store has a version inside of a database has its examples in journal, cas, guard and fs/identity.
func TestExampleIsOfToday(t *testing.T) {
	w := rig.Image(t, example(t, fmt.Sprintf("format%d.img.zst", formatNow(t))))
	fresh := rig.NewMounted(t)
	fresh.Sh("echo f >f").OK()
	fresh.Unmount()
	if old, now := versions(t, w), versions(t, fresh); old != now || !strings.Contains(now, "segment") {
		t.Errorf("the newest example is of\n%sa store of today of\n%s", old, now)
	}
}

// versions are those that a store's files tell.
func versions(t *testing.T, w *rig.Workspace) string {
	t.Helper()
	out := w.Read(".tt/format")
	for _, db := range []string{"journal/index", "cas"} {
		names, err := filepath.Glob(w.Path(".tt/" + db + "/marker.format-version.*"))
		if err != nil || len(names) != 1 {
			t.Fatalf("%s: %q, %v", db, names, err)
		}
		out += db + filepath.Ext(names[0]) + "\n"
	}
	segments, err := filepath.Glob(w.Path(".tt/journal/*.seg"))
	if err != nil || len(segments) == 0 {
		t.Fatal(segments, err)
	}
	b, err := os.ReadFile(segments[len(segments)-1])
	if err != nil {
		t.Fatal(err)
	}
	return out + fmt.Sprintf("segment %d\n", binary.LittleEndian.Uint32(b[8:]))
}
