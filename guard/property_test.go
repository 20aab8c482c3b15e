package guard

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestMain fixes the seed of what is random, unless one is given.
func TestMain(m *testing.M) {
	flag.Parse()
	given := map[string]bool{}
	flag.Visit(func(f *flag.Flag) { given[f.Name] = true })
	for name, value := range map[string]string{"rapid.seed": "2026", "rapid.nofailfile": "true", "rapid.checks": "400"} {
		if !given[name] {
			if err := flag.Set(name, value); err != nil {
				panic(err)
			}
		}
	}
	os.Exit(m.Run())
}

// oneLine draws a line for the rig.
func oneLine(t *rapid.T) string {
	who := rapid.SampledFrom([]string{"a", "a.1", "a.2", "a.1/7", "b", "b.3", "b/8", "c", "user"}).Draw(t, "who")
	path := rapid.SampledFrom([]string{"p", "q", "r"}).Draw(t, "path")
	from := rapid.IntRange(0, 4).Draw(t, "from")
	to := from + rapid.IntRange(0, 3).Draw(t, "length")
	verb := rapid.SampledFrom([]string{
		"open", "read", "read", "snap", "late", "late", "part", "part", "part", "rewrite", "rewrite", "empty", "truncate", "edit", "edit", "punch", "append",
		"create", "create", "unlink", "rename", "rename", "link", "exchange"}).Draw(t, "verb")
	switch verb {
	case "late":
		return fmt.Sprintf("%s late %s %d-%d", who, path, from, to)
	case "part":
		return fmt.Sprintf("%s read %s %d-%d", who, path, from, to)
	case "edit", "punch":
		return fmt.Sprintf("%s %s %s %d-%d", who, verb, path, from, to)
	case "rewrite", "truncate", "create":
		return fmt.Sprintf("%s %s %s %d", who, verb, path, to)
	case "rename", "link", "exchange":
		return fmt.Sprintf("%s %s %s %s", who, verb, path, rapid.SampledFrom([]string{"p", "q", "r"}).Draw(t, "to"))
	}
	return who + " " + verb + " " + path
}

// TestAloneIsNeverRefused: an agent that works alone on small files, with as many processes as it likes.
func TestAloneIsNeverRefused(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRig(t)
		r.pol = Policy{Blind: rapid.SampledFrom([]BlindRule{Allow, Contested}).Draw(t, "blind"), Live: func(Agent) bool { return true }}
		r.do("user create p 2")
		r.do("user create q 1")
		for range rapid.IntRange(5, 50).Draw(t, "lines") {
			w := strings.Fields(oneLine(t))
			w[0] = rapid.SampledFrom([]string{"a", "a.1", "a.2/7"}).Draw(t, "alone")
			if r.size[r.at[w[2]]] > block && w[1] == "append" {
				continue
			}
			if w[1] == "edit" || w[1] == "punch" || w[1] == "rewrite" || w[1] == "truncate" || w[1] == "create" {
				w[3] = map[bool]string{true: "0-1", false: "2"}[w[1] == "edit" || w[1] == "punch"]
			}
			switch got := r.do(strings.Join(w, " ")); strings.Fields(got)[0] {
			case "stale", "partial", "blind", "busy":
				t.Fatalf("%s: %s", strings.Join(w, " "), got)
			}
		}
		if list := r.stale("a"); list != "" {
			t.Fatalf("stale: %s", list)
		}
	})
}

// TestAgainstModel: in any story, the guard says what the naive model says.
func TestAgainstModel(t *testing.T) {
	asked, refused := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		r := newRig(t)
		r.oracle = &model{}
		r.pol.Blind = rapid.SampledFrom([]BlindRule{Allow, Allow, Contested, Deny}).Draw(t, "blind")
		r.pol.Live = func(Agent) bool { return true }
		n := rapid.IntRange(5, 50).Draw(t, "lines")
		for range n {
			line := oneLine(t)
			got := r.do(line)
			t.Logf("%s: %s", line, got)
			if strings.HasPrefix(got, "stale") && rapid.Bool().Draw(t, "remount") {
				b := r.s.Export()
				r.s = New()
				if err := r.s.Import(b); err != nil {
					t.Fatal(err)
				}
			}
		}
		check(t, r.s)
		asked, refused = asked+r.asked, refused+r.refused
	})
	if refused*20 < asked || refused == asked {
		t.Fatalf("%d of %d refused: the stories show nothing", refused, asked)
	}
}
