package main

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/ttfs/ttfs/fs/control"
)

// parseChanges reads lines of an operation and a path, quoted where it must be.
func parseChanges(text string) []change {
	all := []change{}
	for line := range strings.Lines(text) {
		op, path, found := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if found {
			all = append(all, change{op, control.Unquote(path)})
		}
	}
	return all
}

// net is what is left of several steps, made one after the other: a path that was created and deleted is not in it.
func net(steps [][]change) []change {
	ops := map[string]string{}
	for _, step := range steps {
		for _, c := range step {
			was, had := ops[c.Path]
			switch {
			case had && was == "created" && c.Op == "deleted":
				delete(ops, c.Path)
			case had && was == "created":
			case had && was == "deleted" && c.Op == "created":
				ops[c.Path] = "modified"
			default:
				ops[c.Path] = c.Op
			}
		}
	}
	all := make([]change, 0, len(ops))
	for path, op := range ops {
		all = append(all, change{op, path})
	}
	slices.SortFunc(all, func(a, b change) int { return cmp.Compare(a.Path, b.Path) })
	return all
}

// inverse is what taking a task back does.
func inverse(files []change) []change {
	other := map[string]string{"created": "deleted", "deleted": "created"}
	all := slices.Clone(files)
	for i, c := range all {
		if op, ok := other[c.Op]; ok {
			all[i].Op = op
		}
	}
	return all
}

// imperative says what a move does rather than what a task did.
func imperative(files []change) []change {
	words := map[string]string{"created": "create", "modified": "modify", "deleted": "delete"}
	all := slices.Clone(files)
	for i, c := range all {
		if op, ok := words[c.Op]; ok {
			all[i].Op = op
		}
	}
	return all
}

// below says whether a path is at or below one of paths, or there are none.
func below(path string, paths []string) bool {
	return len(paths) == 0 || slices.ContainsFunc(paths, func(p string) bool {
		return p == "." || path == p || strings.HasPrefix(path, p+"/")
	})
}

func itoa(id uint64) string { return strconv.FormatUint(id, 10) }

func compareIDs(a, b uint64) int { return cmp.Compare(a, b) }
