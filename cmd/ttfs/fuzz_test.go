package main

import (
	"slices"
	"strings"
	"testing"
)

// FuzzReplies: whatever a daemon, perhaps of another version, and the kernel say, the command line understands it or says that it does not.
func FuzzReplies(f *testing.F) {
	for _, s := range []string{"ok 1\nfrom 2\nchanged 1\ncreate a\n", "ok 1\nfrom 2\nchanged 0", "ok 1\nfrom 2\nchanged 0\n", "created \"a\\nb\"\n", "# HELP x y\n# TYPE x gauge\nx{a=\"b\"} 5\n",
		"36 35 0:40 / /a\\040b rw - fuse.ttfs ttfs rw\n", "1 2 - fuse.ttfs", "\n \n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if res, err := parseReply(s); err == nil && (!strings.HasPrefix(s, "ok") || slices.ContainsFunc(res.Paths, func(c change) bool { return c.Op == "" && c.Path == "" })) {
			t.Fatalf("%q is %+v", s, res)
		}
		parseChanges(s)
		for _, m := range parseMetrics(s) {
			if m.value == "" {
				t.Fatalf("%q has %+v", s, m)
			}
		}
		if _, err := parseMounts(strings.NewReader(s)); err != nil {
			t.Fatal(err)
		}
	})
}
