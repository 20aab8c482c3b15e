package journal

import (
	"bytes"
	"slices"
	"testing"
)

// TestPutJoined: a value that is put in two parts, into a batch that was given room or not, is the record of the whole one.
func TestPutJoined(t *testing.T) {
	t.Parallel()
	value := bytes.Repeat([]byte("0123456789"), 100)
	for _, size := range []int{0, 1, inlineMax, inlineMax + 1, len(value)} {
		for _, cut := range []int{0, size / 3, size} {
			for _, room := range []int{0, 1, 10 * size} {
				var whole, parts Batch
				parts.Grow(room)
				if !parts.Empty() {
					t.Errorf("a batch with room for %d bytes is not empty", room)
				}
				for _, key := range []string{"a", "b"} {
					whole.Put([]byte(key), value[:size])
					parts.PutJoined([]byte(key), value[:cut], value[cut:size])
				}
				if !bytes.Equal(whole.buf, parts.buf) || !slices.Equal(whole.sums, parts.sums) {
					t.Errorf("%d bytes, cut at %d, room for %d: another record", size, cut, room)
				}
			}
		}
	}
}
