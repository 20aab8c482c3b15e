package control

import (
	"strings"
	"testing"
)

// FuzzQuote: any name of a path comes back from its line as it was.
func FuzzQuote(f *testing.F) {
	for _, path := range []string{"", "plain", `"`, `"a"`, `a"b`, `back\slash`, "a\nb", "\xff\n", "ä\t\\", "\x7f\x01", "\r", `\n`} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		q := Quote(path)
		if strings.ContainsAny(q, "\n\r\t\x00\x7f") {
			t.Errorf("%q is %q, which does not fit on a line", path, q)
		}
		if got := Unquote(q); got != path {
			t.Errorf("%q comes back as %q", path, got)
		}
		Unquote(path) // whatever it is
	})
}

// TestRestoreOfOddNames: the path of restore is all that is left of the line but for one newline.
func TestRestoreOfOddNames(t *testing.T) {
	for line, want := range map[string]string{"restore 3 a\r\n": "a\r", "restore 3 a\r": "a\r", "restore 3 a\n\n": "a\n", "restore 3  a ": " a "} {
		if c, err := Parse([]byte(line)); err != nil || c.Path != want {
			t.Errorf("%q is %q, %v", line, c.Path, err)
		}
	}
	for _, line := range []string{"undo\r\n", "undo \r", "task x\r\n", "guard on\r"} {
		if _, err := Parse([]byte(line)); err != nil {
			t.Errorf("%q: %v", line, err)
		}
	}
}
