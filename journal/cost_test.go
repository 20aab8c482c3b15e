package journal

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// countDisk counts what segments cost. While held is not nil, who makes one durable waits for it.
type countDisk struct {
	disk
	writes, syncs atomic.Int64
	held          atomic.Pointer[chan struct{}]
}

func (d *countDisk) open(path string, flag int) (file, error) {
	f, err := d.disk.open(path, flag)
	return countFile{f, d}, err
}

type countFile struct {
	file
	d *countDisk
}

func (f countFile) WriteAt(b []byte, off int64) (int, error) {
	f.d.writes.Add(1)
	return f.file.WriteAt(b, off)
}

func (f countFile) datasync() error {
	f.d.syncs.Add(1)
	if held := f.d.held.Load(); held != nil {
		<-*held
	}
	return f.file.datasync()
}

// TestOneWriteEach: a record is one write(2), and those that wait for the disk at once wait for one fdatasync(2).
func TestOneWriteEach(t *testing.T) {
	const records = 50
	d := &countDisk{disk: osDisk{}}
	commit := func(j *Journal, i int) {
		var b Batch
		for part := range 3 {
			b.Put(fmt.Append(nil, "key", i, part), make([]byte, 2000*part))
		}
		if err := j.Commit(&b); err != nil {
			t.Error(err)
		}
	}
	j := mustOpen(t, t.TempDir(), Options{disk: d})
	before := d.writes.Load()
	for i := range records {
		commit(j, i)
	}
	if n := d.writes.Load() - before; n != records {
		t.Errorf("%d records are %d writes", records, n)
	}

	j = mustOpen(t, t.TempDir(), Options{disk: d, SyncEvery: true})
	held := make(chan struct{})
	d.held.Store(&held)
	syncs, records0 := d.syncs.Load(), j.Stats().Records
	var all sync.WaitGroup
	for i := range records {
		all.Go(func() { commit(j, i) })
	}
	for end := time.Now().Add(30 * time.Second); j.Stats().Records-records0 < records; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Error("who waits for the disk keeps others from appending")
			break
		}
	}
	d.held.Store(nil)
	close(held)
	all.Wait()
	if n := d.syncs.Load() - syncs; n > 3 {
		t.Errorf("%d records at once are made durable by %d calls", records, n)
	}
}
