package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
)

// endsAt is a context that is cancelled when it is asked the nth time.
type endsAt struct {
	context.Context
	left int
}

// Err is context.Canceled from the nth time on.
func (c *endsAt) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// TestVerifyCancelled: whenever it is cancelled, what was looked at until then is not reported as damage.
func TestVerifyCancelled(t *testing.T) {
	j := mustOpen(t, t.TempDir(), Options{})
	for i := range 5 {
		var b Batch
		b.Put(fmt.Append(nil, i), bytes.Repeat([]byte("v"), 2*inlineMax))
		if err := j.Commit(&b); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	for n := 0; ; n++ {
		_, err := j.Verify(&endsAt{t.Context(), n}, func(p Problem) { t.Errorf("cancelled at %d: %v", n, p) })
		if err == nil {
			if n < 5 {
				t.Fatalf("it asked only %d times", n)
			}
			return
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
}
