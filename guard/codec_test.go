package guard

import (
	"bytes"
	"encoding/hex"
	"errors"
	"testing"
)

// stored makes a state with all that an export has.
func stored(t tester) *rig {
	r := newRig(t)
	r.do("user create p 1")
	r.do("user create big 6")
	tell(r, "a.1/3 read p; a.1 read big 0-1; a.2 read big 3-4; b.7/4 append p; b.7 unlink p; a open big; a link big l; c create d/x 1; a.1 read d/x")
	tell(r, "a create e 1; c create t 1; c rename t e; b append d/x; user append big")
	return r
}

// exports are an export of each version, from 1 on: every later program reads them. A new version comes with its own.
var exports = []string{
	"0110050100000101620405020000010475736572001003080802016300090162000f040a0a010161000b050c0c010163000d060362696701020003642f7801030001650105020161000b0163000e016c010200017000020162040501620006017400010163000e030161040104030100808004010170040204030200808004808008808004020362696704016c0703090301008080040103642f7809040b0101008080040101650b0202010102040300010362696704010103010403000101700402040300010362696704030903000103642f780901630203090101008080040103642f7809050d0101008080040201740e01650e000162020105010180800480800401017006030f01018080048080040103642f780f010701010105010001017006",
}

// TestGolden: what earlier programs wrote is read, and what this one writes is the last of the examples.
func TestGolden(t *testing.T) {
	if len(exports) != version {
		t.Fatalf("there are examples of %d versions, and it is version %d: add one", len(exports), version)
	}
	for i, text := range exports {
		b, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		r := stored(t)
		if now := r.s.Export(); i == len(exports)-1 && !bytes.Equal(now, b) {
			t.Errorf("the encoding has changed without a new version: %x", now)
		}
		s := New()
		if err := s.Import(b); err != nil {
			t.Fatalf("version %d: %v", i+1, err)
		}
		old := r.stale("a")
		if r.s = s; r.stale("a") != old || old == "" {
			t.Errorf("version %d: %q, then %q", i+1, old, r.stale("a"))
		}
		tell(r, "a.1 rewrite big 1 = stale user; a rewrite d/x 1 = stale b; a read d/x; a rewrite d/x 1; a.1 rewrite d/x 1 = stale b; c rewrite d/x 1 = stale b a")
		check(t, s)
	}
}

func TestImportRefuses(t *testing.T) {
	b := stored(t).s.Export()
	s := stored(t).s
	before := s.Export()
	refused := func(b []byte, kind Kind) {
		t.Helper()
		if err := s.Import(b); !errors.Is(err, kind) || err.Error() == "" {
			t.Fatalf("%x: %v", b, err)
		}
		if !bytes.Equal(s.Export(), before) {
			t.Fatal("a refused import has changed the state")
		}
	}
	refused(append([]byte{version + 1}, b[1:]...), Format)
	refused([]byte{0}, Format)
	refused(nil, Corrupt)
	for n := 1; n < len(b); n++ {
		refused(b[:n], Corrupt)
	}
	refused(append(bytes.Clone(b), 0), Corrupt)
	for name, text := range map[string]string{
		"a record that nobody needs":  "01 05 01 0700000000 00 00",
		"a place that nobody needs":   "01 05 00 01 0170 00 00 00",
		"a file twice":                "01 05 02 07000000 07000000 00 00",
		"born in the future":          "01 05 01 07060000 00 01 0161 01 07000100 00 00",
		"a writer in the future":      "01 05 01 0700000101620006 00 01 0161 01 0700010000 00",
		"a writer at 0":               "01 05 01 0700000101620000 00 01 0161 01 0700010000 00",
		"a writer twice":              "01 05 01 07000002016200010162000200 01 0161 01 0700010000 00",
		"the user as an agent":        "01 05 00 00 01 0475736572 00 00",
		"an agent twice":              "01 05 00 00 02 0161 00 00 0161 00 00",
		"process 0":                   "01 05 00 00 01 0161 00 01 0001 00",
		"a process twice":             "01 05 00 00 01 0161 00 02 0101 00 0101 00",
		"knowledge of no record":      "01 05 00 00 01 0161 01 0700010000 00",
		"knowledge from the future":   "01 05 01 07000000 00 01 0161 01 0706010000 00",
		"unknown flags":               "01 05 01 07000000 00 01 0161 01 0700040000 00",
		"read and not seen":           "01 05 01 07000000 00 01 0161 01 0700020000 00",
		"an empty span":               "01 05 01 07000000 00 01 0161 01 07000101000000 00",
		"spans that touch":            "01 05 01 07000000 00 01 0161 01 0700010200010001 00 00",
		"a span past all files":       "01 05 01 07000000 00 01 0161 01 07000101ffffffffffffffff7f02 00 00",
		"a path of no place":          "01 05 01 07000000 00 01 0161 01 0700010001017000 00",
		"a path from the future":      "01 05 01 07000000 01 0170010700 01 0161 01 0700010001017006 00",
		"a place of no record":        "01 05 00 01 0170010700 00",
		"a place of something":        "01 05 01 07000000 01 01700200 01 0161 01 0700010001017000 00",
		"a place without a path":      "01 05 01 07000000 01 00010700 01 0161 01 07000100010000 00",
		"more than there is":          "01 05 ffffffff7f",
		"a text longer than there is": "01 05 00 01 ff70",
		"a number that does not end":  "01 ffffffffffffffffffffffff",
		"more writers than a ledger":  "01 05 01 07000041" + "00000000000000000000000000000000000000000000000000000000000000000000000000000000",
	} {
		raw, err := hex.DecodeString(string(bytes.ReplaceAll([]byte(text), []byte(" "), nil)))
		if err != nil {
			t.Fatal(name, err)
		}
		if err := New().Import(raw); !errors.Is(err, Corrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The same, right: so that the cases above fail for what they say.
	right, _ := hex.DecodeString("010501070101" + "01016200" + "05" + "01" + "0170" + "0107" + "00" + "01" + "0161" + "01" + "070503" + "0200010101" + "01017000" + "01" + "0101" + "00")
	if err := New().Import(right); err != nil {
		t.Error(err)
	}
}

func FuzzImport(f *testing.F) {
	f.Add(stored(f).s.Export())
	f.Add(New().Export())
	f.Add([]byte{1, 5, 0, 0, 1, 1, 'a', 0, 1, 1, 1, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		s := New()
		if s.Import(b) != nil {
			return
		}
		check(t, s)
		for _, a := range s.Agents() {
			s.Stale(a)
			who := Actor{Agent: a}
			for file := range s.files {
				s.Decide(&Question{Actor: who, Op: TruncateOpen, File: file, Path: "p", SizeBytes: 1 << 20}, &Policy{Blind: Contested})
				s.Read(who, file, "p", s.Now(), 0, 10)
				s.Wrote(who, file, "p", 0, 10, 10)
				s.Removed(who, file, "p")
				s.Created(who, file, "p/q")
				s.Renamed(who, 0, "p", "r", true)
			}
		}
		check(t, s)
	})
}
