package treecmp

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Diff says, one readable line a difference and sorted by path, in what got is
// not want. An empty answer means that they are the same.
func Diff(want, got Tree) []string {
	var lines []string
	for _, path := range allPaths(want, got) {
		w, inWant := want[path]
		g, inGot := got[path]
		switch {
		case !inGot:
			lines = append(lines, fmt.Sprintf("%q: %s is missing", path, w.Type))
		case !inWant:
			lines = append(lines, fmt.Sprintf("%q: %s should not be there", path, g.Type))
		default:
			for _, line := range diffEntry(w, g) {
				lines = append(lines, fmt.Sprintf("%q: %s", path, line))
			}
		}
	}
	return lines
}

// Report is Diff for a test's failure: at most 40 lines and how many more.
func Report(want, got Tree) string {
	const most = 40
	lines := Diff(want, got)
	if len(lines) > most {
		lines = append(lines[:most:most], fmt.Sprintf("… and %d more", len(lines)-most))
	}
	return strings.Join(lines, "\n")
}

// WithoutLinkCounts is a copy in which no link count differs from another.
func (t Tree) WithoutLinkCounts() Tree {
	return t.without(func(entry *Entry) { entry.Nlink = 0 })
}

// WithoutTimes is a copy in which no time differs from another.
func (t Tree) WithoutTimes() Tree {
	return t.without(func(entry *Entry) { entry.MtimeNS = 0 })
}

func (t Tree) without(clear func(*Entry)) Tree {
	copied := make(Tree, len(t))
	for path, entry := range t {
		clear(&entry)
		copied[path] = entry
	}
	return copied
}

func allPaths(want, got Tree) []string {
	paths := slices.Collect(maps.Keys(want))
	for path := range got {
		if _, both := want[path]; !both {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}

func diffEntry(want, got Entry) []string {
	if want.Type != got.Type {
		return []string{fmt.Sprintf("want a %s, is a %s", want.Type, got.Type)}
	}
	var lines []string
	differ := func(what string, w, g any) {
		lines = append(lines, fmt.Sprintf("%s: want %v, is %v", what, w, g))
	}
	if want.Mode != got.Mode {
		differ("mode", fmt.Sprintf("%04o", want.Mode), fmt.Sprintf("%04o", got.Mode))
	}
	if want.UID != got.UID || want.GID != got.GID {
		differ("owner", fmt.Sprintf("%d:%d", want.UID, want.GID), fmt.Sprintf("%d:%d", got.UID, got.GID))
	}
	if want.MtimeNS != got.MtimeNS {
		differ("mtime", clock(want.MtimeNS), clock(got.MtimeNS))
	}
	if want.SizeBytes != got.SizeBytes {
		differ("size", want.SizeBytes, got.SizeBytes)
	} else if want.Sum != got.Sum {
		differ("content", fmt.Sprintf("%x", want.Sum[:6]), fmt.Sprintf("%x", got.Sum[:6]))
	}
	if want.Target != got.Target {
		differ("target", fmt.Sprintf("%q", want.Target), fmt.Sprintf("%q", got.Target))
	}
	if want.Rdev != got.Rdev {
		differ("device", want.Rdev, got.Rdev)
	}
	if want.Nlink != got.Nlink {
		differ("link count", want.Nlink, got.Nlink)
	}
	if !slices.Equal(want.Group, got.Group) {
		differ("hard links", fmt.Sprintf("%q", want.Group), fmt.Sprintf("%q", got.Group))
	}
	if !maps.Equal(want.Xattrs, got.Xattrs) {
		differ("xattrs", fmt.Sprintf("%q", want.Xattrs), fmt.Sprintf("%q", got.Xattrs))
	}
	// What was preallocated and not written reads as a hole or as data, as the page cache has it: only a file that takes
	// more of the disk than before has lost a hole.
	if want.SizeBytes == got.SizeBytes && !slices.Equal(want.Extents, got.Extents) && got.DiskBytes > want.DiskBytes+metadataBytes {
		differ("data extents", want.Extents, got.Extents)
	}
	return lines
}

// metadataBytes is what a file's own map of blocks may take more than before.
const metadataBytes = 16 << 10

func clock(ns int64) string {
	return time.Unix(0, ns).UTC().Format("2006-01-02T15:04:05.000000000")
}
