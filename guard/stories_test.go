package guard

import (
	"strings"
	"testing"
)

// stories are the sequences of the design. A line may end in "= what comes of it"; else it is ok. In a path of its own,
// p is small and big is big; both are made by the user.
var stories = map[string]string{
	"read then write":                      "a read p; a rewrite p 1; a rewrite p 2; a unlink p",
	"never read":                           "a rewrite p 1",
	"stale, each way to destroy":           "a read p; b read p; b rewrite p 1; a rewrite p 1 = stale b; a truncate p 0 = stale b; a punch p 0-1 = stale b; a edit p 0-1 = stale b; a unlink p = stale b; a create t 1; a rename t p = stale b; a link t p = stale b; a exchange t p = stale b; a exchange p t = stale b",
	"stale, what destroys nothing":         "a read p; b rewrite p 1; a append p; a chmod p; a truncate p 5; a edit p 5-6; a truncate p 9",
	"reading again":                        "a read p; b rewrite p 1; a rewrite p 1 = stale b; a read p; a rewrite p 1",
	"only one of two wins":                 "a read p; b read p; b rewrite p 1; a rewrite p 1 = stale b; a read p; a rewrite p 2; b rewrite p 1 = stale a",
	"refused twice":                        "a read p; b rewrite p 1; a rewrite p 1 = stale b; a rewrite p 1 = stale b",
	"an own write masks nobody":            "a read p; b/3 append p; a append p; a append p; a rewrite p 1 = stale b/3",
	"a third writer masks nobody":          "a read p; b/3 append p; c/4 append p; b/5 append p; a rewrite p 1 = stale b/3 c/4 b/5",
	"the last task orders":                 "a read p; b/3 append p; c/4 append p; b/3 append p; a rewrite p 1 = stale c/4 b/3",
	"emptied by another":                   "a read p; b empty p; a rewrite p 1 = stale b; a truncate p 0 = stale b; a truncate p 1; a edit p 1-2",
	"the user makes stale":                 "a read p; user rewrite p 1; a rewrite p 1 = stale user; user rewrite p 2; a read p; a rewrite p 1; user rewrite p 1; user unlink p",
	"the user is never refused":            "user read big 0-1; a rewrite big 3; user rewrite big 4; user edit big 0-1; user unlink big",
	"an edit around the mount":             "a read p; a outside p; a rewrite p 1 = stale outside_the_mount; a read p; a rewrite p 1",
	"replaced around the mount":            "a read p; a replaced p; a rewrite p 1 = stale outside_the_mount; a look p; a edit p 0-1 = stale outside_the_mount; a read p; a rewrite p 1",
	"replaced around the mount, noticed":   "a read p; a replaced p; a outside p; a stale p = p:outside_the_mount",
	"replaced around the mount, listed":    "a read p; a replaced p; a look p; a stale p = p:outside_the_mount; a read p; a stale p =",
	"partial":                              "a read big 0-1; a rewrite big 1 = partial 1-4; a edit big 0-1; a edit big 0-2 = partial 1-2; a edit big 3-4 = partial 3-4; a punch big 1-2 = partial 1-2; a truncate big 1 = partial 1-4; a append big; a truncate big 4",
	"partial over a file":                  "a read big 1-2; a create t 1; a rename t big = partial 0-1 2-4; a link t big = partial 0-1 2-4; a exchange big t = partial 0-1 2-4; a exchange t big = partial 0-1 2-4; a unlink big",
	"two halves are whole":                 "a read big 0-2; a rewrite big 1 = partial 2-4; a read big 2-4; a rewrite big 1",
	"overlapping halves":                   "a read big 1-3; a read big 0-2; a read big 2-4; a rewrite big 1",
	"a hole between":                       "a read big 0-1; a read big 2-3; a rewrite big 1 = partial 1-2 3-4; a edit big 0-3 = partial 1-2",
	"head after a full read":               "a read big; a read big 0-1; a rewrite big 1",
	"head in another process":              "a.1 read big; a.2 read big 0-1; a.2 rewrite big 1",
	"stale before partial":                 "a read big 0-1; b append big; a edit big 0-1 = stale b; a edit big 2-3 = stale b; a unlink big = stale b",
	"written in the middle of a read":      "a snap big; b append big; a late big 0-4; a rewrite big 1 = stale b; a read big; a rewrite big 1",
	"an old read ends late":                "a snap big; b append big; a read big 0-1; a late big 1-4; a edit big 0-1; a edit big 1-2 = partial 1-2",
	"an old read, own write between":       "a snap big; a append big; a read big 0-1; a late big 1-4; a rewrite big 1",
	"halves of two versions":               "a read big 0-2; b edit big 0-1; a read big 2-4; a rewrite big 1 = partial 0-2",
	"own bytes need no reading":            "a read big 0-2; a truncate big 2 = partial 2-4; a edit big 4-6; a edit big 5-6; a truncate big 4; a edit big 3-4 = partial 3-4",
	"own file, big":                        "a create n 5; a read n 0-1; a rewrite n 4; a unlink n",
	"own file, others appended":            "a create n 5; b append n; a rewrite n 1 = stale b",
	"open and read nothing":                "a open big; a rewrite big 1",
	"open for writing is no reading":       "b rewrite p 1; a look p; b append p; a rewrite p 1",
	"rename over by another":               "a read p; b create t 1; b rename t p; a rewrite p 1 = stale b; a unlink p = stale b; a append p; a rewrite p 1 = stale b; a read p; a rewrite p 1",
	"rename over, big, opened only":        "a read big; b create t 4; b rename t big; a open big; a rewrite big 1 = stale b; a read big 0-1; a rewrite big 1 = partial 1-4",
	"rename over, then edited by a third":  "a read p; b create t 1; b rename t p; c append p; a rewrite p 1 = stale b c; a stale p = p:b,c",
	"unlink and create by another":         "a read p; b unlink p; b create p 1; a rewrite p 1 = stale b",
	"unlink by me, create by another":      "a read p; a unlink p; b create p 1; a rewrite p 1 = stale b",
	"unlink by another, create by me":      "a read p; b unlink p; a stale p = absent; a create p 1; a rewrite p 2; b create p 1 = exists; a stale p = p:b",
	"my own rename over":                   "a read p; a create t 1; a rename t p; a rewrite p 1; a rewrite p 1; b append p; a rewrite p 1 = stale b",
	"moved away by me, created by another": "a read p; a rename p q; b create p 1; a rewrite p 1 = stale b; a rewrite q 1",
	"moved by another":                     "a read p; b rename p q; a rewrite q 1; b append q; a rewrite q 1 = stale b",
	"moved by another, replaced there":     "a read p; b rename p q; c create t 1; c rename t q; a rewrite q 1 = stale c; a stale q = p:b q:c",
	"moved and back":                       "a read p; b rename p q; b rename q p; a rewrite p 1",
	"many hard links":                      "a link p 1; a link p 2; a link p 3; a link p 4; a link p 5; a read p; a read 1; a read 2; a read 3; a read 4; a read 5; a append 4; b append 5; a stale p = 1:b 2:b 3:b 4:b 5:b p:b; a read 3; a stale p =; b create t 1; b rename t 4; a rewrite 4 1 = stale b; a stale p = 4:b",
	"hard links share":                     "a read p; b link p q; b append q; a rewrite p 1 = stale b; a rewrite q 1 = stale b; a read q; a rewrite p 1",
	"a hard link replaced":                 "a link p q; a read p; a read q; b create t 1; b rename t q; a rewrite q 1 = stale b; a rewrite p 1",
	"link over":                            "a read p; b create t 1; b link t p; a rewrite p 1 = stale b; a read t; a rewrite p 1",
	"exchange by another":                  "a read p; b create t 1; b exchange t p; a rewrite p 1 = stale b; a rewrite t 1",
	"exchange, the other end":              "a create t 1; a read p; b append t; a exchange p t = stale b",
	"exchange by me":                       "a read p; a read big; a exchange p big; a rewrite p 1; a rewrite big 1",
	"nearest first: the process's own":     "a.1 read p; b append p; a.2 read p; a.1 rewrite p 1 = stale b; a.2 rewrite p 1",
	"nearest first: else the agent's":      "a.1 read p; b append p; a.2 rewrite p 1 = stale b; a.1 read p; a.2 rewrite p 1",
	"nearest first: a replaced path":       "a.1 read p; b create t 1; b rename t p; a.2 read p; a.1 rewrite p 1 = stale b; a.2 rewrite p 1",
	"nearest first: own writes":            "a.1 rewrite p 1; b append p; a.2 read p; a.1 rewrite p 1 = stale b; a.3 rewrite p 1",
	"another process of mine wrote":        "a.1 read p; a.2 rewrite p 2; a.1 rewrite p 1; a.2 create t 1; a.2 rename t p; a.1 rewrite p 1",
	"a process does not hide the agent's":  "a.1 read p; b append p; a.2 append p; a.2 rewrite p 1 = stale b",
	"a process does not hide the path":     "a.1 read p; b create t 1; b rename t p; a.2 append p; a.2 rewrite p 1 = stale b; a.2 unlink p = stale b",
	"the process ends":                     "a.1 read p; b append p; a.2 read p; a.1 rewrite p 1 = stale b; a.1 exit; a.1 rewrite p 1",
	"the process ends, comes again":        "a.1 read p; a.1 exit; a.1 read p; a.1 exit; b append p; a.1 append p; a.1 rewrite p 1 = stale b",
	"an empty file of mine, replaced":      "a create e; b create t 1; b rename t e; a rewrite e 1 = stale b",
	"an empty file of mine, written to":    "a create e; b append e; a rewrite e 1 = stale b",
	"one known file moved over another":    "a create q 1; a read p; b read p; b read q; b rename q p; a stale p = p:b q:b; a rewrite p 1",
	"past the end":                         "a read big; a edit big 6-7; a rewrite big 4; user append big; a read big 0-1; a truncate big 1 = partial 1-5",
	"the agent ends":                       "a read p; b append p; a rewrite p 1 = stale b; a end; a rewrite p 1",
	"the writer ends":                      "a read p; b append p; b end; a rewrite p 1 = stale b",
	"the writer of a replaced path ends":   "a read p; b create t 1; b rename t p; c append p; b end; c end; a rewrite p 1 = stale b c",
	"stale list":                           "a read p; a read big; b append p; c append p; b append big; a append p; a stale p = big:b p:b,c; a read p; a stale p = big:b; a read big 0-1; a stale p =; b stale p = p:a,c; user stale p =",
	"stale list, written, then replaced":   "a read p; b append p; c create t 1; c rename t p; a stale p = p:b,c; a unlink p = stale b c",
	"stale list, written, then deleted":    "a read p; b append p; c unlink p; a stale big = p:b,c",
	"stale list, written before it came":   "a read p; b create t 1; c append t; b rename t p; a stale p = p:b; a unlink p = stale b",
	"stale list, deleted":                  "a read p; a read big; b unlink p; a stale big = p:b",
	"stale list, own only":                 "a create q 1; b append q; a stale q = q:b",
	"forgotten":                            "a.1 read p; b append p; a.1 rewrite p 1 = stale b; a forget p; a.1 rewrite p 1; a forget p; b read big 0-1; a forget big; b rewrite big 1; a stale p =",
	"rewriting":                            "a begin p; b may p = busy a; b may p append; user may p; a may p; c begin p; a may p = busy c; a close p; b may p = busy c; c close p; b may p; b close p; b may p",
	"rewriting twice":                      "a begin p; a/4 begin p; a close p; b may p = busy a/4; a close p; b may p",
	"rewriting, ended":                     "a begin p; a begin big; c begin p; a end; b may p = busy c; b may big",
	"rewriting by the user":                "user begin p; b may p = busy user; user close p; b may p",
	"directory moved by me":                "a create d/x 1; a create d/y 1; a mvdir d e; b append e/x; b create t 1; b rename t e/y; a stale e/x = e/x:b e/y:b; a rewrite e/x 1 = stale b; a rewrite e/y 1 = stale b",
	"directory moved by another":           "a create d/x 1; a.1 read d/x; b mvdir d e; a rewrite e/x 1; b create t 1; b rename t e/x; a.1 rewrite e/x 1 = stale b; b create d/x 1; a rewrite d/x 1",
	"directory moved, stale before":        "a create d/x 1; b create t 1; b rename t d/x; a mvdir d e; a rewrite e/x 1 = stale b; a stale e/x = e/x:b",
	"directory moved to where one was":     "a create e/x 1; a mvdir e f; b create d/x 1; b read f/x; b create e/x 1; b unlink e/x; b mvdir d e; a stale f/x =; a rewrite e/x 1 = ok",
	"directory over a known place":         "a create e/x 1; b read e/x; a unlink e/x; a create d/x 1; a mvdir d e; b rewrite e/x 1 = stale a; a rewrite e/x 1",
	"directory over a path I emptied":      "b create e/x 1; b unlink e/x; a create d/x 1; a mvdir d e; b rewrite e/x 1 = stale a",
	"directories exchanged":                "a create d/x 1; a create e/x 1; a swapdirs d e; a rewrite d/x 1; a rewrite e/x 1; b append d/x; a rewrite d/x 1 = stale b; a rewrite e/x 1; a stale d/x = d/x:b",
	"not below, only alike":                "a create d/x 1; a create dd 1; a create da/x 1; b mvdir d e; b append dd; b append da/x; a stale dd = da/x:b dd:b",
}

func TestStories(t *testing.T) {
	for name, story := range stories {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.do("user create p 1")
			r.do("user create big 4")
			tell(r, story)
			check(t, r.s)
		})
	}
}

// tell runs a story.
func tell(r *rig, story string) {
	r.t.Helper()
	for _, line := range strings.Split(story, ";") {
		line, want, said := strings.Cut(strings.TrimSpace(line), "=")
		if !said {
			want = "ok"
		}
		if got := r.do(line); got != strings.TrimSpace(want) {
			r.t.Fatalf("%s: %q, not %q", line, got, strings.TrimSpace(want))
		}
	}
}

func TestBlind(t *testing.T) {
	live := func(names ...string) func(Agent) bool {
		return func(a Agent) bool { return strings.Contains(strings.Join(names, " "), string(a)) }
	}
	for name, c := range map[string]struct {
		pol   Policy
		story string
	}{
		"allow":                       {Policy{}, "b rewrite p 1; a rewrite p 1"},
		"contested":                   {Policy{Blind: Contested, Live: live("b")}, "b/2 rewrite p 1; a rewrite p 1 = blind b/2; a edit p 0-1 = blind b/2; a truncate p 0 = blind b/2; a append p; a edit p 2-3; a unlink p"},
		"contested, read":             {Policy{Blind: Contested, Live: live("b")}, "b rewrite p 1; a read p; a rewrite p 1"},
		"contested, by nobody alive":  {Policy{Blind: Contested, Live: live("c")}, "b rewrite p 1; a rewrite p 1"},
		"contested, by default known": {Policy{Blind: Contested}, "b rewrite p 1; a rewrite p 1 = blind b; b end; a rewrite p 1"},
		"contested, by the user":      {Policy{Blind: Contested, Live: live("user")}, "b rewrite p 1; user append p; a rewrite p 1"},
		"contested, around the mount": {Policy{Blind: Contested, Live: func(Agent) bool { return true }}, "b rewrite p 1; b outside p; a rewrite p 1"},
		"contested, own append":       {Policy{Blind: Contested, Live: live("b")}, "b rewrite p 1; a append p; a rewrite p 1 = blind b; a edit p 1-2; a edit p 0-1 = blind b"},
		"contested, own file":         {Policy{Blind: Contested, Live: live("b")}, "a create n 9; a rewrite n 1"},
		"contested, lost knowledge":   {Policy{Blind: Contested, Live: live("b")}, "b create n 1; a read n; a end; a rewrite n 1 = blind b"},
		"deny":                        {Policy{Blind: Deny}, "a rewrite p 1 = blind; a edit p 0-1 = blind; a punch p 0-1 = blind; a append p; a edit p 2-3; a edit p 1-3; a edit p 0-1 = blind; a unlink p; a create p 1; a rewrite p 2"},
		"deny, a rename over":         {Policy{Blind: Deny}, "a create t 1; a rename t p = blind; a exchange t p = blind; a read p; a rename t p"},
		"deny, an empty file":         {Policy{Blind: Deny}, "user empty p; a rewrite p 1"},
		"deny, opened only":           {Policy{Blind: Deny}, "a open big; a rewrite big 1 = blind"},
		"deny, partial":               {Policy{Blind: Deny}, "a read big 0-1; a rewrite big 1 = partial 1-4"},
		"unguarded":                   {Policy{Blind: Deny, Unguarded: true}, "a read p; b rewrite p 1; a rewrite p 1; a stale p = p:b"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.pol = c.pol
			r.do("user create p 1")
			r.do("user create big 4")
			tell(r, c.story)
			check(t, r.s)
		})
	}
}
