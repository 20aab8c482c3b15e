package overlay

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// passes says whether files are passed through from now on.
func (s *stand) passes(can bool) {
	s.pass = can
	s.e.SetPassthrough(can)
}

// byHandle opens a file and keeps it open, or writes to one that is.
func (m *machine) byHandle() (name string, want, got error) {
	for h, id := range m.a.files {
		i := m.a.fs.byID(id)
		if i == nil || m.rng.IntN(4) == 0 {
			delete(m.a.files, h)
			m.release(h)
			return fmt.Sprintf("close #%d", id), nil, nil
		}
		off, b := m.offset(i), m.bytes()
		if len(b) > 0 {
			i.write(off, []byte(b))
		}
		if r := m.a.tasks[m.a.at]; m.pass && h.Mode() == Passthrough && r != nil && r.fs != nil && !m.family {
			m.late = true
		}
		return fmt.Sprintf("write #%d %d %d", id, off, len(b)), nil, m.writeAt(h, off, b)
	}
	p := m.some(file)
	i := m.a.fs.find(p)
	if i == nil || i.kind != unix.S_IFREG {
		return "nothing", nil, nil
	}
	h, err := m.openFile(m.full(p), unix.O_RDWR)
	if err == nil {
		m.a.files[h] = i.id
	}
	return fmt.Sprintf("open %s #%d", p, i.id), nil, err
}

func (m *machine) releaseAll() {
	for _, a := range m.actors {
		for h := range a.files {
			m.release(h)
		}
		clear(a.files)
	}
}
