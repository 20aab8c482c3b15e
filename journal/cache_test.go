package journal

import (
	"bytes"
	"fmt"
	"testing"
)

// TestIndexCacheForgets: what a Get has read from the index is not told any more once the key has changed and gone into the
// index again.
func TestIndexCacheForgets(t *testing.T) {
	j := mustOpen(t, t.TempDir(), Options{})
	key := []byte("k")
	for i, change := range []func(b *Batch){
		func(b *Batch) { b.Put(key, []byte("one")) },
		func(b *Batch) { b.Put(key, []byte("two")) },
		func(b *Batch) { b.Put(key, bytes.Repeat([]byte("3"), 2*inlineMax)) },
		func(b *Batch) { b.Delete(key) },
		func(b *Batch) { b.Put(key, []byte("five")) },
		func(b *Batch) { b.DeletePrefix([]byte("k")) },
	} {
		var b Batch
		change(&b)
		if err := j.Commit(&b); err != nil {
			t.Fatal(err)
		}
		var want []byte
		for step := range 4 {
			got, found, err := j.Get(key)
			if err != nil || found != (i != 3 && i != 5) {
				t.Fatalf("change %d, step %d: %v, %v", i, step, found, err)
			}
			if step > 0 && !bytes.Equal(got, want) {
				t.Fatalf("change %d, step %d: %q, want %q", i, step, got, want)
			}
			want = append([]byte(nil), got...)
			if len(got) > 0 {
				got[0] = '!' // the slice is the caller's
			}
			if step == 0 {
				if err := j.Checkpoint(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// TestIndexCacheRefusesTheOld: a read that began before the cache was emptied leaves nothing in it, and the cache is bounded.
func TestIndexCacheRefusesTheOld(t *testing.T) {
	var c indexCache
	age := c.now()
	c.add([]byte("k"), []byte("old"), age)
	if string(c.get([]byte("k"))) != "old" {
		t.Fatal("it does not keep")
	}
	c.empty()
	c.add([]byte("k"), []byte("old"), age)
	if v := c.get([]byte("k")); v != nil {
		t.Fatalf("it has %q", v)
	}
	age = c.now()
	c.add([]byte("used"), []byte("v"), age)
	for i := range 4 * cacheBytes / 1000 {
		c.add(fmt.Append(nil, i), make([]byte, 1000), age)
		if c.get([]byte("used")) == nil {
			t.Fatalf("what is used was dropped after %d", i)
		}
		if n := len(c.young) + len(c.old); n > 2*cacheBytes/1000 {
			t.Fatalf("it holds %d", n)
		}
	}
	if c.get([]byte("0")) != nil {
		t.Error("it drops nothing")
	}
	c.add([]byte("big"), make([]byte, cacheBytes/8), age)
	if c.get([]byte("big")) != nil {
		t.Error("it keeps what fills it at once")
	}
}

// TestIndexCacheAbsent: what is known to be absent is told by its key alone, of the age at which it was looked for, and the
// last of two at one place stays.
func TestIndexCacheAbsent(t *testing.T) {
	var c indexCache
	age := c.now()
	c.addAbsent([]byte("k"), age)
	if !c.absent([]byte("k")) || c.absent([]byte("kk")) || c.absent(nil) {
		t.Error("it tells of another key")
	}
	c.empty()
	if c.absent([]byte("k")) {
		t.Error("it tells what was absent before it was emptied")
	}
	c.addAbsent([]byte("k"), age)
	if c.absent([]byte("k")) {
		t.Error("it takes what was looked for before it was emptied")
	}
	long := bytes.Repeat([]byte("k"), absentMax+1)
	c.addAbsent(long, c.now())
	c.addAbsent(nil, c.now())
	if c.absent(long) || c.absent(long[1:]) || c.absent(nil) {
		t.Error("it keeps a key that it has no room for")
	}
	for i := range 4 * absentSlots {
		key := fmt.Append(nil, i)
		c.addAbsent(key, c.now())
		if !c.absent(key) {
			t.Fatalf("%s is not kept", key)
		}
	}
}
