package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// terminal is a pseudo-terminal: what is written to the second is read from the first.
func terminal(t *testing.T) (master, tty *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { master.Close() })
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if tty, err = os.OpenFile("/dev/pts/"+itoa(uint64(n)), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tty.Close() })
	return master, tty
}

func TestProgressOnATerminal(t *testing.T) {
	master, tty := terminal(t)
	p := startProgress(tty, "fsck")
	p.set(3, 12)
	said := make(chan string)
	go func() {
		var all []byte
		b := make([]byte, 256)
		for !bytes.Contains(all, []byte("25%")) {
			n, err := master.Read(b)
			if err != nil {
				break
			}
			all = append(all, b[:n]...)
		}
		said <- string(all)
	}()
	select {
	case s := <-said:
		if !strings.Contains(s, "fsck: ") || !strings.Contains(s, "3 of 12 (25%)") {
			t.Errorf("it said %q", s)
		}
	case <-time.After(time.Minute):
		t.Error("nothing is shown")
	}
	p.end()
}

func TestNoProgressElsewhere(t *testing.T) {
	var w bytes.Buffer
	p := startProgress(&w, "fsck")
	p.set(1, 2)
	p.end()
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	q := startProgress(file, "fsck")
	if q.w != nil {
		t.Error("a file is taken for a terminal")
	}
	q.end()
	if w.Len() > 0 {
		t.Errorf("it wrote %q", w.String())
	}
}
