package journal

import (
	"bytes"
	"testing"
)

// sealed returns the record that Commit would write.
func sealed(b *Batch, seed uint32, lsn uint64) []byte {
	rec := bytes.Clone(b.buf)
	sealRecord(rec, payloadSum(seed, rec[recordHead:]), lsn)
	return rec
}

func scanAll(t testing.TB, raw []byte, seed uint32) (lsns []uint64, skipped int64) {
	t.Helper()
	sc := scanner{r: bytes.NewReader(raw), size: int64(len(raw)), seed: seed}
	for {
		at := sc.off
		rec, n, ok, err := sc.next()
		if err != nil {
			t.Fatal(err)
		}
		skipped += n
		if !ok {
			return lsns, skipped
		}
		if rec.off != at+n || sc.off <= rec.off || sc.off > int64(len(raw)) {
			t.Fatalf("record at %d after %d skipped from %d, next at %d", rec.off, n, at, sc.off)
		}
		lsns = append(lsns, rec.lsn)
	}
}

// FuzzRecords feeds the decoder with what a disk may hold, as it is and with a checksum made to fit.
func FuzzRecords(f *testing.F) {
	one := sealed(batchOf("key", "value"), 7, 1)
	two := sealed(batchOf("a", "-", "b", "*", "c", big("v", 600)), 7, 2)
	f.Add(one, uint32(7))
	f.Add(append(bytes.Clone(one), two...), uint32(7))
	f.Add(append(append(bytes.Clone(one), 1, 2, 3), two...), uint32(7))
	f.Add(bytes.Repeat([]byte{0}, 64), uint32(0))
	f.Add([]byte{2, 0, 0, 0, 1, 2, 3, 4, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0xff}, uint32(0))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0xff}, uint32(0))
	f.Fuzz(func(t *testing.T, raw []byte, seed uint32) {
		if len(raw) > 1<<16 {
			return
		}
		scanAll(t, raw, seed)
		if len(raw) < recordHead+minPayload {
			return
		}
		sealRecord(raw, payloadSum(seed, raw[recordHead:]), 1)
		fits := opsFit(raw[recordHead:])
		lsns, _ := scanAll(t, raw, seed)
		if fits && (len(lsns) != 1 || lsns[0] != 1) {
			t.Fatalf("a sound record was not read: %v", lsns)
		}
		if fits {
			newMemtable().apply(raw[recordHead:], 1, 0, nil)
		}
	})
}

// TestScannerResync damages each byte of the middle record in turn: the others are found.
func TestScannerResync(t *testing.T) {
	const seed = 99
	a, b, c := sealed(batchOf("a", "1"), seed, 1), sealed(batchOf("bb", big("v", 40)), seed, 2), sealed(batchOf("c", "-"), seed, 3)
	whole := bytes.Join([][]byte{a, b, c}, nil)
	if lsns, skipped := scanAll(t, whole, seed); len(lsns) != 3 || skipped != 0 {
		t.Fatal(lsns, skipped)
	}
	for i := range b {
		bad := bytes.Clone(whole)
		bad[len(a)+i] ^= 0x40
		if lsns, skipped := scanAll(t, bad, seed); len(lsns) != 2 || lsns[1] != 3 || skipped != int64(len(b)) {
			t.Fatalf("byte %d: %v, skipped %d of %d", i, lsns, skipped, len(b))
		}
	}
}

// TestScannerEmbedded stores records as values: of this journal with older LSNs, of another one with fitting LSNs. When the record around
// them is damaged none of them may come to life.
func TestScannerEmbedded(t *testing.T) {
	const seed = 99
	a := sealed(batchOf("a", "1"), seed, 1)
	own, foreign := sealed(batchOf("a", "1"), seed, 1), sealed(batchOf("evil", "1"), seed+1, 3)
	host := sealed(batchOf("copy", string(own)+string(foreign)), seed, 2)
	host[recordHead] ^= 1
	d := sealed(batchOf("d", "1"), seed, 3)
	lsns, skipped := scanAll(t, bytes.Join([][]byte{a, host, d}, nil), seed)
	if len(lsns) != 2 || lsns[1] != 3 || skipped != int64(len(host)) {
		t.Fatal(lsns, skipped)
	}
}
