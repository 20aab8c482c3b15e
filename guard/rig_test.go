package guard

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
)

// block is the unit of sizes and offsets in the stories: two of them are a small file, three are a big one.
const block = SmallBytes / 2

// tester is a *testing.T, *testing.F or *rapid.T.
type tester interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

// rig is a filesystem without bytes: names and sizes, and the guard asked and told as the engine does it.
type rig struct {
	t       tester
	s       *State
	pol     Policy
	next    File
	at      map[string]File
	size    map[File]int64
	oracle  *model
	asked   int
	refused int
	began   Seq            // by "snap"
	bound   map[string]Seq // when a path last came to name something else
	events  int
	by      Actor
}

func newRig(t tester) *rig {
	return &rig{t: t, s: New(), at: map[string]File{}, size: map[File]int64{}, bound: map[string]Seq{}}
}

// actor of "a", of "a.1" (process 1 of a), of "a/7" (task 7), of "user".
func actor(word string) Actor {
	word, task, _ := strings.Cut(word, "/")
	name, proc, _ := strings.Cut(word, ".")
	n, _ := strconv.Atoi(task)
	pid, _ := strconv.Atoi(proc)
	return Actor{Agent: Agent(name), Task: Task(n), Proc: Process{PID: pid, Start: 1}, User: name == "user"}
}

// span of "1-3", in blocks.
func span(word string) (from, to int64) {
	a, b, _ := strings.Cut(word, "-")
	x, _ := strconv.Atoi(a)
	y, _ := strconv.Atoi(b)
	return int64(x) * block, int64(y) * block
}

// told is a verdict as the stories write it.
func told(v Verdict) string {
	if v.Allow {
		return "ok"
	}
	words := []string{map[Kind]string{Stale: "stale", Partial: "partial", Blind: "blind", Busy: "busy"}[v.Kind]}
	for _, w := range v.Writers {
		name := strings.ReplaceAll(string(w.Agent), " ", "_")
		if w.Task != 0 {
			name += fmt.Sprintf("/%d", w.Task)
		}
		words = append(words, name)
	}
	for _, r := range v.Ranges {
		words = append(words, fmt.Sprintf("%d-%d", r.From/block, r.To/block))
	}
	return strings.Join(words, " ")
}

// ask decides, twice, and compares with the oracle.
func (r *rig) ask(q Question) string {
	r.t.Helper()
	got := told(r.s.Decide(&q, &r.pol))
	if again := told(r.s.Decide(&q, &r.pol)); again != got {
		r.t.Fatalf("decided %q, then %q", got, again)
	}
	if r.oracle != nil {
		if want := r.oracle.decide(q, r.pol); got != want && !(r.pol.Blind == Deny && strings.HasPrefix(got, "blind") && strings.HasPrefix(want, "blind")) {
			r.t.Fatalf("%s by %+v of %s (file %d, %d-%d of %d): %q, the model says %q", q.Op, q.Actor, q.Path, q.File, q.From/block, q.To/block, q.SizeBytes/block, got, want)
		}
	}
	r.asked++
	if got != "ok" {
		r.refused++
	}
	return got
}

// do runs one line: WHO VERB PATH [ARGUMENT]. It gives "ok", or why not; what is refused is not done.
func (r *rig) do(line string) string {
	r.t.Helper()
	w := append(strings.Fields(line), "", "", "")
	who, verb, path, arg := actor(w[0]), w[1], w[2], w[3]
	f, there := r.at[path]
	p := Path(path)
	q := Question{Actor: who, File: f, Path: p, SizeBytes: r.size[f]}
	s, m := r.s, r.oracle
	defer func(before map[string]File) {
		for _, p := range []string{path, arg} {
			if r.at[p] != before[p] {
				r.bound[p] = s.Now()
			}
		}
	}(maps.Clone(r.at))
	wrote := func(from, to, size int64) {
		s.Wrote(who, f, p, from, to, size)
		m.wrote(who, f, p, min(from, r.size[f]), to, size)
		r.size[f] = size
	}
	if !there && verb != "create" && verb != "end" && verb != "exit" && verb != "mvdir" && verb != "swapdirs" {
		return "absent"
	}
	switch verb {
	case "open": // for reading
		s.Opened(who, f, p, r.size[f], ForReading)
		m.opened(who, f, p, r.size[f])
	case "look": // for writing only
		s.Opened(who, f, p, r.size[f], ForWriting)
	case "read":
		start := s.Opened(who, f, p, r.size[f], ForReading)
		m.opened(who, f, p, r.size[f])
		from, to := int64(0), r.size[f]
		if arg != "" {
			from, to = span(arg)
		}
		s.Read(who, f, p, start, from, min(to, r.size[f]))
		m.read(who, f, p, m.now(), from, min(to, r.size[f]))
	case "snap": // a read begins here
		s.Opened(who, f, p, r.size[f], ForReading)
		m.opened(who, f, p, r.size[f])
		r.began, r.events, r.by = s.Now(), m.now(), who
	case "late": // and is reported here
		from, to := span(arg)
		if r.by != who || r.began < r.bound[path] {
			return "too early"
		}
		s.Read(who, f, p, r.began, from, min(to, r.size[f]))
		m.read(who, f, p, r.events, from, min(to, r.size[f]))
	case "rewrite": // open(O_TRUNC), write
		q.Op = TruncateOpen
		if v := r.ask(q); v != "ok" {
			return v
		}
		_, n := span("0-" + arg)
		wrote(0, 0, 0)
		wrote(0, n, n)
	case "empty":
		q.Op = TruncateOpen
		if v := r.ask(q); v != "ok" {
			return v
		}
		wrote(0, 0, 0)
	case "truncate":
		q.Op = Truncate
		_, q.From = span("0-" + arg)
		if v := r.ask(q); v != "ok" {
			return v
		}
		wrote(min(q.From, r.size[f]), q.From, q.From)
	case "edit", "punch":
		q.Op, q.From, q.To = Overwrite, 0, 0
		if verb == "punch" {
			q.Op = Punch
		}
		q.From, q.To = span(arg)
		if v := r.ask(q); v != "ok" {
			return v
		}
		s.Opened(who, f, p, r.size[f], ForWriting)
		wrote(q.From, q.To, max(r.size[f], q.To))
	case "append":
		q.Op = Append
		if v := r.ask(q); v != "ok" {
			return v
		}
		wrote(r.size[f], r.size[f]+block, r.size[f]+block)
	case "chmod":
		q.Op = Metadata
		return r.ask(q)
	case "create":
		if there {
			return "exists"
		}
		r.next++
		f = r.next
		r.at[path], r.size[f] = f, 0
		s.Created(who, f, p)
		m.created(who, f, p)
		if arg != "" {
			_, n := span("0-" + arg)
			wrote(0, n, n)
		}
	case "unlink":
		q.Op = Unlink
		if v := r.ask(q); v != "ok" {
			return v
		}
		delete(r.at, path)
		s.Removed(who, f, p)
		m.removed(who, f, p)
	case "rename", "link": // path over arg
		over, exists := r.at[arg]
		if over == f {
			return "same"
		}
		if exists {
			q.Op, q.File, q.Path, q.SizeBytes = RenameOver, over, Path(arg), r.size[over]
			if verb == "link" {
				q.Op = LinkOver
			}
			if v := r.ask(q); v != "ok" {
				return v
			}
		}
		r.at[arg] = f
		if verb == "link" {
			s.Linked(who, f, Path(arg))
			m.linked(who, f, Path(arg))
			break
		}
		delete(r.at, path)
		s.Renamed(who, f, p, Path(arg), false)
		m.renamed(who, f, p, Path(arg))
	case "exchange":
		g, ok := r.at[arg]
		if !ok || g == f {
			return "same"
		}
		q.Op, q.Other = Exchange, End{File: g, Path: Path(arg), SizeBytes: r.size[g]}
		if v := r.ask(q); v != "ok" {
			return v
		}
		r.at[path], r.at[arg] = g, f
		s.Exchanged(who, End{File: f, Path: p}, q.Other)
		m.exchanged(who, f, p, g, Path(arg))
	case "mvdir":
		r.moveDir(path, arg)
		s.Renamed(who, 0, p, Path(arg), true)
	case "swapdirs":
		r.moveDir(path, "?")
		r.moveDir(arg, path)
		r.moveDir("?", arg)
		s.Exchanged(who, End{Path: p, Dir: true}, End{Path: Path(arg), Dir: true})
	case "outside": // an edit around the mount
		s.External(f, p)
	case "replaced": // around the mount, by another inode
		r.next++
		r.at[path], r.size[r.next] = r.next, r.size[f]
	case "forget":
		s.Forget(f)
	case "end":
		s.End(who.Agent)
	case "exit":
		s.EndProcess(who.Proc)
	case "begin":
		s.BeginRewrite(f, who)
	case "close":
		s.EndRewrite(f, who)
	case "may":
		return told(s.MayOpenForWriting(f, p, who, arg == "append"))
	case "stale":
		return r.stale(who.Agent)
	default:
		r.t.Fatalf("no verb in %q", line)
	}
	return "ok"
}

func (r *rig) moveDir(from, to string) {
	for p, f := range r.at {
		if rest, ok := strings.CutPrefix(p, from+"/"); ok {
			delete(r.at, p)
			r.at[to+"/"+rest] = f
		}
	}
}

// stale is the list of an agent: "p:b,c q:b".
func (r *rig) stale(a Agent) string {
	var words []string
	for _, e := range r.s.Stale(a) {
		var names []string
		for _, n := range e.Agents() {
			names = append(names, strings.ReplaceAll(string(n), " ", "_"))
		}
		words = append(words, string(e.Path)+":"+strings.Join(names, ","))
	}
	return strings.Join(words, " ")
}
