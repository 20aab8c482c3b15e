package guard

import "bytes"

// check recounts everything in a state and sends it through Export and Import.
func check(t tester, s *State) {
	t.Helper()
	files, places := map[*record]int{}, map[*place]int{}
	minds := []*mind{}
	for a, g := range s.agents {
		if g.me != a || len(g.procs) > maxProcesses || g.limit != maxFiles {
			t.Fatalf("agent %q is %+v", a, g)
		}
		minds = append(minds, g.mind)
		for _, m := range g.procs {
			minds = append(minds, m)
		}
	}
	for _, m := range minds {
		checkMind(t, s, m, files, places)
	}
	for p, pl := range s.places {
		if pl.path != p || pl.refs != places[pl] || pl.refs == 0 {
			t.Fatalf("place %q counts %d, not %d", p, pl.refs, places[pl])
		}
		if pl.file != nil {
			files[pl.file]++
		}
	}
	for f, r := range s.files {
		if r.id != f || r.refs != files[r] || r.refs == 0 {
			t.Fatalf("file %d counts %d, not %d", f, r.refs, files[r])
		}
		if len(r.log.entries) > maxWriters {
			t.Fatalf("%d writers", len(r.log.entries))
		}
	}
	if len(places) != len(s.places) || len(files) != len(s.files) {
		t.Fatal("something points to what is not kept")
	}
	b := s.Export()
	other := New()
	if err := other.Import(b); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(other.Export(), b) {
		t.Fatal("imported, the state is another")
	}
}

func checkMind(t tester, s *State, m *mind, files map[*record]int, places map[*place]int) {
	t.Helper()
	if len(m.files) > m.limit || len(m.names) > m.limit {
		t.Fatalf("%q knows %d files and %d paths", m.me, len(m.files), len(m.names))
	}
	seen, named := 0, 0
	var newer *known
	for k := m.newest; k != nil; newer, k = k, k.older {
		seen++
		if k.newer != newer || m.files[k.rec.id] != k || s.files[k.rec.id] != k.rec || k.as > s.seq {
			t.Fatalf("the list of use of %q is broken at %d", m.me, k.rec.id)
		}
		files[k.rec]++
		named += len(k.names)
		for _, n := range k.names {
			places[n.place]++
			if n.known != k || m.names[n.place.path] != n || s.places[n.place.path] != n.place || n.as > s.seq {
				t.Fatalf("%q does not know %q by one name", m.me, n.place.path)
			}
		}
		for i, v := range k.spans {
			if v.From >= v.To || i > 0 && k.spans[i-1].To >= v.From {
				t.Fatalf("spans %v", k.spans)
			}
		}
	}
	if newer != m.oldest || seen != len(m.files) || named != len(m.names) {
		t.Fatalf("%q: %d of %d files listed, %d of %d paths", m.me, seen, len(m.files), named, len(m.names))
	}
}
