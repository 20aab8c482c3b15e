package control

import "github.com/ttfs/ttfs/fs/overlay"

// Quote makes a path fit on a line, as in diffs: overlay.Quote.
func Quote(path string) string { return overlay.Quote(path) }

// Unquote takes back what Quote did, byte for byte. What Quote does not write stays as it is.
func Unquote(s string) string { return overlay.Unquote(s) }
