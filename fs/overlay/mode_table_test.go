package overlay

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestModeOfOpen: the table of I/O modes (DESIGN section 6), and what the kernel allows of it.
func TestModeOfOpen(t *testing.T) {
	const little, big = smallBytes, wholeBytes + 1
	for _, c := range []struct {
		what string
		o    opening
		want how
	}{
		{"read", opening{size: big}, how{mode: Passthrough}},
		{"read, guarded, small", opening{guarded: true, size: little}, how{mode: Passthrough}},
		{"read, guarded", opening{guarded: true, size: little + 1}, how{mode: Direct}},
		{"read, guarded, beside a passthrough open", opening{guarded: true, size: big, passing: true}, how{mode: Direct, backed: true}},
		{"read, guarded, nothing to learn", opening{guarded: true, size: big, known: true}, how{mode: Passthrough}},
		{"write, new or emptied", opening{flags: unix.O_WRONLY, kept: true}, how{mode: Passthrough}},
		{"write, emptied by a guarded agent", opening{flags: unix.O_WRONLY, kept: true, guarded: true, fresh: true}, how{mode: Passthrough}},
		{"write, small", opening{flags: unix.O_WRONLY, size: little}, how{mode: Passthrough, keep: true}},
		{"write", opening{flags: unix.O_WRONLY, size: big}, how{mode: Direct, backed: true}},
		{"write, every block of it kept", opening{flags: unix.O_WRONLY, size: big, kept: true}, how{mode: Passthrough}},
		{"write, guarded, small", opening{flags: unix.O_WRONLY, guarded: true, size: little}, how{mode: Direct, backed: true}},
		{"append", opening{flags: unix.O_WRONLY | unix.O_APPEND, size: little}, how{mode: Direct, backed: true}},
		{"read and write", opening{flags: unix.O_RDWR, size: wholeBytes}, how{mode: Passthrough, keep: true}},
		{"read and write, big", opening{flags: unix.O_RDWR, size: big}, how{mode: Direct}},
		{"read and write, big, beside a passthrough open", opening{flags: unix.O_RDWR, size: big, passing: true}, how{mode: Passthrough, keep: true}},
		{"anything beside a mapping of a direct open", opening{direct: true, kept: true}, how{mode: Direct}},
		{"a setuid file", opening{flags: unix.O_WRONLY, kept: true, privileged: true}, how{mode: Direct, backed: true}},
		{"write, another agent may write unseen", opening{flags: unix.O_WRONLY, kept: true, beside: true}, how{mode: Direct, backed: true}},
	} {
		c.o.passthrough = true
		if got := c.o.how(); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.what, got, c.want)
		}
		c.o.passthrough = false
		if got := c.o.how(); got != (how{mode: Cached}) {
			t.Errorf("%s, without passthrough: %+v", c.what, got)
		}
	}
}
