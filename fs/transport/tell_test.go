package transport

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// TestTell: from where the kernel is told, nothing of the process can be reached but /dev/fuse and what the runtime needs, so that
// a thread that waits there for ever holds nothing else; the kernel can be told from several at once, and after the end.
func TestTell(t *testing.T) {
	over(t, func(t *testing.T, c *Conn, b *blocks) {
		witness, err := os.Open(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer witness.Close()
		if open := openFiles(); strings.Contains(open, "io_uring") != (c.Kind() == Uring) || !strings.Contains(open, witness.Name()) {
			t.Fatalf("this test sees nothing: %s", open)
		}
		var all sync.WaitGroup
		told := make(chan string, 32)
		for range cap(told) {
			all.Go(func() { c.Tell(func() { told <- openFiles() }) })
		}
		all.Wait()
		for range cap(told) {
			open := <-told
			for line := range strings.Lines(open) {
				if !strings.Contains(line, "/dev/fuse") && !strings.Contains(line, "anon_inode:[event") {
					t.Fatalf("it has more than it should:\n%s", open)
				}
			}
			if strings.Count(open, "/dev/fuse") != 1 || !strings.Contains(open, "eventpoll") {
				t.Fatalf("it lacks what it needs:\n%s", open)
			}
		}
		_ = c.Unmount(true)
		c.Wait()
		did := false
		c.Tell(func() { did = true })
		if !did {
			t.Error("nothing is told after the end")
		}
	})
}

// openFiles are the descriptors of the calling thread past the first three, one a line. It opens nothing: package testing would
// note that in its log, whose file such a thread does not have.
func openFiles() string {
	var b strings.Builder
	for fd := 3; fd < 1<<12; fd++ {
		if target, err := os.Readlink("/proc/thread-self/fd/" + strconv.Itoa(fd)); err == nil {
			fmt.Fprintln(&b, fd, target)
		}
	}
	return b.String()
}
