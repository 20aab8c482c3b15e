package overlay

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"
)

// engineOps are one operation each as the kernel asks for it, without a kernel: what the engine itself takes and
// allocates. What was there before was made in an earlier task.
var engineOps = []struct {
	name  string
	files bool // file i is there before
	do    func(s *stand, i int) error
}{
	{"Lookup", true, func(s *stand, i int) error { return s.lookupOnce(RootNode, benchName(i)) }},
	{"LookupMissing", false, func(s *stand, i int) error {
		if _, err := s.e.Lookup(RootNode, benchName(i)); err != unix.ENOENT {
			return fmt.Errorf("got %v", err)
		}
		return nil
	}},
	{"GetAttr", true, func(s *stand, i int) error {
		_, err := s.e.GetAttr(s.names[dentry{RootNode, benchName(i)}], nil)
		return err
	}},
	{"GetXattrMissing", true, func(s *stand, i int) error {
		if _, err := s.e.GetXattr(s.names[dentry{RootNode, benchName(i)}], "system.posix_acl_access"); err != unix.ENODATA {
			return fmt.Errorf("got %v", err)
		}
		return nil
	}},
	{"CreateWriteRelease", false, func(s *stand, i int) error {
		ent, h, err := s.e.Create(s.caller(), RootNode, benchName(i), unix.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		s.enter(dentry{RootNode, benchName(i)}, ent)
		_, err = s.e.Write(s.caller(), h, benchPage, 0, false, false)
		s.e.Release(h)
		return err
	}},
	{"OpenRelease", true, func(s *stand, i int) error { return s.opened(i, unix.O_RDONLY, nil) }},
	{"RewriteFirst", true, func(s *stand, i int) error {
		return s.opened(i, unix.O_WRONLY|unix.O_TRUNC, func(h *Handle) error {
			_, err := s.e.Write(s.caller(), h, benchPage, 0, false, false)
			return err
		})
	}},
	{"PwriteFirst", true, func(s *stand, i int) error {
		return s.opened(i, unix.O_WRONLY, func(h *Handle) error {
			_, err := s.e.Write(s.caller(), h, benchPage[:100], 1000, false, false)
			return err
		})
	}},
	{"Rename", true, func(s *stand, i int) error {
		return s.e.Rename(s.caller(), RootNode, benchName(i), RootNode, benchName(i)+"n", 0)
	}},
	{"Unlink", true, func(s *stand, i int) error { return s.e.Unlink(s.caller(), RootNode, benchName(i)) }},
	{"Chmod", true, func(s *stand, i int) error {
		mode := uint32(0o600)
		_, err := s.e.SetAttributes(s.caller(), s.names[dentry{RootNode, benchName(i)}], nil, SetAttr{Mode: &mode})
		return err
	}},
	{"Mkdir", false, func(s *stand, i int) error {
		ent, err := s.e.Mkdir(s.caller(), RootNode, benchName(i), 0o755)
		if err == nil {
			s.enter(dentry{RootNode, benchName(i)}, ent)
		}
		return err
	}},
	{"BeginTask", false, func(s *stand, i int) error {
		_, err := s.e.BeginTask(s.agent, "bench")
		return err
	}},
}

var benchPage = make([]byte, 4096)

func benchName(i int) string { return fmt.Sprintf("file%06d", i) }

func (s *stand) lookupOnce(dir NodeID, name string) error {
	_, err := s.e.Lookup(dir, name)
	return err
}

func (s *stand) opened(i int, flags uint32, f func(*Handle) error) error {
	h, err := s.e.Open(s.caller(), s.names[dentry{RootNode, benchName(i)}], flags, false, nil)
	if err != nil {
		return err
	}
	if f != nil {
		err = f(h)
	}
	s.e.Release(h)
	return err
}

// BenchmarkEngine runs each as often as -benchtime says (2000x, say): as many files are made beforehand. Beside the time it
// reports the processor's, which other work on the machine changes less.
func BenchmarkEngine(b *testing.B) {
	for _, op := range engineOps {
		b.Run(op.name, func(b *testing.B) {
			s := newStand(b, 1)
			s.set = func(o *Options) { o.Events = nil } // tests take its lines apart
			s.reopen()
			for i := range b.N {
				if op.files {
					s.must(s.create(benchName(i), string(benchPage), 0o644))
				}
			}
			if _, err := s.e.BeginTask(s.agent, "measured"); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			b.ResetTimer()
			start := cpuTime(b)
			for i := range b.N {
				if err := op.do(s, i); err != nil {
					b.Fatal(err)
				}
			}
			b.StopTimer()
			b.ReportMetric(float64(cpuTime(b)-start)/float64(b.N), "cpu-ns/op")
		})
	}
}

// cpuTime is what the process has used, in nanoseconds.
func cpuTime(b *testing.B) int64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}
