package main

import (
	"fmt"
	"strings"

	"github.com/ttfs/ttfs/fs/control"
)

// filterDiff leaves of a diff what is about the paths, all of it when there are none. A line inside a hunk is told from
// a head by the lengths that the hunk's own head says, since a removed line may look like one ("-- a/x").
func filterDiff(text string, paths []string) string {
	if len(paths) == 0 {
		return text
	}
	var out strings.Builder
	lines := strings.SplitAfter(text, "\n")
	before, after := 0, 0 // lines of the hunk that are still to come
	keep := false
	for i, line := range lines {
		switch {
		case before > 0 || after > 0:
			switch {
			case strings.HasPrefix(line, "-"):
				before--
			case strings.HasPrefix(line, "+"):
				after--
			case !strings.HasPrefix(line, `\`):
				before, after = before-1, after-1
			}
		case strings.HasPrefix(line, "@@ "):
			before, after = hunk(line)
		case strings.HasPrefix(line, "--- /dev/null") && i+1 < len(lines):
			keep = below(headPath(lines[i+1]), paths)
		case strings.HasPrefix(line, "+++ "), strings.HasPrefix(line, `\`):
		default:
			keep = below(headPath(line), paths)
		}
		if keep {
			out.WriteString(line)
		}
	}
	return out.String()
}

// hunk reads the lengths in the head of a hunk: `@@ -1,3 +1,4 @@`, where `,1` may be left out.
func hunk(head string) (before, after int) {
	length := func(word string) int {
		n := 1
		if _, count, found := strings.Cut(word, ","); found {
			if _, err := fmt.Sscanf(count, "%d", &n); err != nil {
				return 0
			}
		}
		return n
	}
	words := strings.Fields(head)
	if len(words) < 3 {
		return 0, 0
	}
	return length(words[1]), length(words[2])
}

// headPath is the path that a line before the hunks is about; "" for none.
func headPath(line string) string {
	line = strings.TrimSuffix(line, "\n")
	for _, side := range []string{"--- a/", "+++ b/"} {
		if label, ok := strings.CutPrefix(line, side[:4]); ok {
			if path, ok := strings.CutPrefix(control.Unquote(label), side[4:]); ok {
				return path
			}
		}
	}
	if rest, ok := strings.CutPrefix(line, "directory "); ok {
		if i := strings.LastIndex(rest, ": mode "); i >= 0 {
			return control.Unquote(rest[:i])
		}
	}
	for _, prefix := range []string{"old mode ", "new mode "} {
		if rest, ok := strings.CutPrefix(line, prefix); ok {
			_, path, _ := strings.Cut(rest, " ")
			return control.Unquote(path)
		}
	}
	if rest, ok := strings.CutPrefix(line, "Binary files "); ok {
		rest = strings.TrimSuffix(rest, " differ")
		if label, ok := strings.CutPrefix(rest, "/dev/null and "); ok {
			return strings.TrimPrefix(control.Unquote(label), "b/")
		}
		if label, ok := strings.CutSuffix(rest, " and /dev/null"); ok {
			return strings.TrimPrefix(control.Unquote(label), "a/")
		}
		half := (len(rest) - len(" and ")) / 2 // a/PATH and b/PATH
		if half > 2 && half <= len(rest) {
			return strings.TrimPrefix(control.Unquote(rest[:half]), "a/")
		}
	}
	return ""
}
