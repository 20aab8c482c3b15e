package control

import "github.com/ttfs/ttfs/tasktree"

// Quote makes a path fit on a line, as in diffs: tasktree.Quote.
func Quote(path string) string { return tasktree.Quote(path) }

// Unquote takes back what Quote did, byte for byte. What Quote does not write stays as it is.
func Unquote(s string) string { return tasktree.Unquote(s) }
