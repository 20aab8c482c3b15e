package journal

import (
	"encoding/binary"
	"fmt"
	"testing"
)

// BenchmarkCommit is one batch of one key: a before-image as small files have them.
func BenchmarkCommit(b *testing.B) {
	for _, size := range []int{200, 4096} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			j := mustOpen(b, b.TempDir(), Options{})
			value, key := make([]byte, size), make([]byte, 24)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			var batch Batch
			for i := 0; b.Loop(); i++ {
				binary.BigEndian.PutUint64(key[16:], uint64(i))
				batch.Reset()
				batch.Put(key, value)
				if err := j.Commit(&batch); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkGet reads from memtable and index, small and big values.
func BenchmarkGet(b *testing.B) {
	for _, where := range []string{"memtable", "index"} {
		for _, size := range []int{200, 4096} {
			b.Run(fmt.Sprint(where, "/", size), func(b *testing.B) {
				j := mustOpen(b, b.TempDir(), Options{})
				key := make([]byte, 24)
				for i := range 10000 {
					var batch Batch
					binary.BigEndian.PutUint64(key[16:], uint64(i))
					batch.Put(key, make([]byte, size))
					if err := j.Commit(&batch); err != nil {
						b.Fatal(err)
					}
				}
				if where == "index" {
					if err := j.Checkpoint(); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					binary.BigEndian.PutUint64(key[16:], uint64(i*7919%10000))
					if _, ok, err := j.Get(key); err != nil || !ok {
						b.Fatal(ok, err)
					}
				}
			})
		}
	}
}
