package tasktree

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// family is a tree of a parent p, its sub-agent c, and c's sub-agent g: p has tasks 1, 4 and 7, c has 2 (under 1), 5
// (under 4) and 8 (under 7), g has 3 (under 2) and 6 (under 5).
func family(t *testing.T) *Tree {
	t.Helper()
	tree := New()
	for _, k := range []Task{
		{ID: 1, Agent: "p"}, {ID: 2, Agent: "c", Under: 1}, {ID: 3, Agent: "g", Under: 2},
		{ID: 4, Parent: 1, Agent: "p"}, {ID: 5, Parent: 2, Agent: "c", Under: 4}, {ID: 6, Parent: 3, Agent: "g", Under: 5},
		{ID: 7, Parent: 4, Agent: "p"}, {ID: 8, Parent: 5, Agent: "c", Under: 7},
	} {
		if err := errors.Join(tree.Add(k), tree.SetActive(k.Agent, k.ID)); err != nil {
			t.Fatal(err)
		}
	}
	return tree
}

// carryOut does to a tree what the engine does at the end of a move.
func carryOut(tree *Tree, p *Plan) error {
	withs := tree.Withs(p)
	for id, with := range withs {
		if _, err := tree.Update(id, func(k *Task) { k.With = with }); err != nil {
			return err
		}
	}
	for _, l := range p.Lines() {
		if err := tree.SetActive(l.Agent, l.To); err != nil {
			return err
		}
	}
	return nil
}

func ids(p Plan, redo bool) (out []TaskID) {
	for _, s := range p.Steps {
		if s.Redo == redo {
			out = append(out, s.Task)
		}
	}
	return out
}

// TestAlong: what goes with what, three deep, there and back.
func TestAlong(t *testing.T) {
	for _, c := range []struct {
		name        string
		agent       Agent
		to          TaskID
		back        []TaskID
		along       []Line
		forthBefore []TaskID
	}{
		{"the parent's last", "p", 4, []TaskID{8, 7}, []Line{{"c", 8, 5}}, nil},
		{"the parent's last two", "p", 1, []TaskID{8, 7, 6, 5, 4}, []Line{{"c", 8, 2}, {"g", 6, 3}}, nil},
		{"all", "p", 0, []TaskID{8, 7, 6, 5, 4, 3, 2, 1}, []Line{{"c", 8, 0}, {"g", 6, 0}}, nil},
		{"the sub-agent's own", "c", 5, []TaskID{8}, nil, nil},
		{"the sub-agent's own two", "c", 2, []TaskID{8, 6, 5}, []Line{{"g", 6, 3}}, nil},
		{"the leaf's own", "g", 0, []TaskID{6, 3}, nil, nil},
	} {
		tree := family(t)
		from := map[Agent]TaskID{"p": 7, "c": 8, "g": 6}
		p, err := tree.PlanSwitch(c.agent, c.to)
		if err != nil || !slices.Equal(ids(p, false), c.back) || len(ids(p, true)) > 0 || !slices.Equal(p.Along, c.along) {
			t.Errorf("%s: %+v, %v", c.name, p, err)
			continue
		}
		if err := carryOut(tree, &p); err != nil {
			t.Fatal(err)
		}
		p, err = tree.PlanSwitch(c.agent, from[c.agent])
		forth := slices.Clone(c.back)
		slices.Reverse(forth)
		if err != nil || !slices.Equal(ids(p, true), forth) || len(ids(p, false)) > 0 {
			t.Errorf("%s, forward: %+v, %v", c.name, p, err)
			continue
		}
		if err := carryOut(tree, &p); err != nil {
			t.Fatal(err)
		}
		for a, at := range from {
			if got := tree.Active(a); got != at {
				t.Errorf("%s, there and back: %s is at %d, was at %d", c.name, a, got, at)
			}
		}
		for _, k := range tree.All() {
			if k.With != 0 {
				t.Errorf("%s, there and back: task %d remembers that it went with %d", c.name, k.ID, k.With)
			}
		}
	}
}

// TestAlongStays: what a sub-agent took back itself, or has left since, does not come with the parent's.
func TestAlongStays(t *testing.T) {
	do := func(tree *Tree, a Agent, to TaskID) Plan {
		t.Helper()
		p, err := tree.PlanSwitch(a, to)
		if err == nil {
			err = carryOut(tree, &p)
		}
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	t.Run("taken back itself", func(t *testing.T) {
		tree := family(t)
		do(tree, "c", 5)
		if p := do(tree, "p", 4); len(p.Along) != 0 {
			t.Errorf("%+v", p)
		}
		if p := do(tree, "p", 7); len(p.Along) != 0 || tree.Active("c") != 5 {
			t.Errorf("%+v", p)
		}
		do(tree, "c", 8)
	})
	t.Run("went on elsewhere", func(t *testing.T) {
		tree := family(t)
		do(tree, "p", 4)
		if err := errors.Join(tree.Add(Task{ID: 9, Parent: 5, Agent: "c", Under: 4}), tree.SetActive("c", 9)); err != nil {
			t.Fatal(err)
		}
		if p := do(tree, "p", 7); len(p.Along) != 0 || tree.Active("c") != 9 {
			t.Errorf("%+v", p)
		}
		if k, _ := tree.Get(8); k.With != 0 {
			t.Error("task 8 was passed over, and would come another time")
		}
	})
	t.Run("under what is undone", func(t *testing.T) {
		tree := family(t)
		do(tree, "p", 4)
		if _, err := tree.PlanSwitch("c", 8); !errors.Is(err, UnderUndone) {
			t.Errorf("a sub-agent's task came back without what it hangs under: %v", err)
		}
		p, err := tree.PlanView("c", 8)
		if err != nil || !slices.Equal(ids(p, true), []TaskID{7, 8}) {
			t.Errorf("its view: %+v, %v", p, err)
		}
	})
	t.Run("on top of what goes", func(t *testing.T) {
		tree := family(t)
		// c has another parent by now; its task 9 hangs under nothing, but stands on 8.
		if err := errors.Join(tree.Add(Task{ID: 9, Parent: 8, Agent: "c"}), tree.SetActive("c", 9)); err != nil {
			t.Fatal(err)
		}
		p := do(tree, "p", 4)
		if !slices.Equal(ids(p, false), []TaskID{9, 8, 7}) {
			t.Errorf("%+v", p)
		}
		if p = do(tree, "p", 7); tree.Active("c") != 9 {
			t.Errorf("%+v", p)
		}
	})
}

// world is a naive workspace of things that hold numbers, with the images of tasks.
type world struct {
	tree   *Tree
	live   map[int]int
	images map[TaskID]map[int]int
	at     map[TaskID]map[int]uint64
	last   map[TaskID]map[int]uint64
	seq    uint64
}

func (w *world) write(id TaskID, thing, value int) {
	w.seq++
	if w.images[id] == nil {
		w.images[id], w.at[id], w.last[id] = map[int]int{}, map[int]uint64{}, map[int]uint64{}
	}
	if _, has := w.images[id][thing]; !has {
		w.images[id][thing], w.at[id][thing] = w.live[thing], w.seq
	}
	w.live[thing], w.last[id][thing] = value, w.seq
}

func (w *world) touched(id TaskID) (out []Touch[int]) {
	for _, thing := range slices.Sorted(maps.Keys(w.images[id])) {
		out = append(out, Touch[int]{thing, w.at[id][thing]})
	}
	return out
}

// move swaps as the engine does, and checks that no step is made twice or out of place.
func (w *world) move(t *rapid.T, p Plan) {
	made := map[TaskID]map[int]bool{}
	for _, part := range Weave(p.Steps, w.touched) {
		things := part.Only
		if things == nil {
			things = slices.Collect(maps.Keys(w.images[part.Task]))
		}
		if made[part.Task] == nil {
			made[part.Task] = map[int]bool{}
		}
		for _, thing := range things {
			if made[part.Task][thing] {
				t.Fatalf("thing %d of task %d is swapped twice", thing, part.Task)
			}
			made[part.Task][thing] = true
			w.seq++
			w.live[thing], w.images[part.Task][thing], w.at[part.Task][thing] = w.images[part.Task][thing], w.live[thing], w.seq
			w.last[part.Task][thing] = w.seq
		}
	}
	for _, s := range p.Steps {
		if len(made[s.Task]) != len(w.images[s.Task]) {
			t.Fatalf("task %d was swapped in part only", s.Task)
		}
	}
	if err := carryOut(w.tree, &p); err != nil {
		t.Fatal(err)
	}
}

// TestFamilyProperty: agents of a family, three deep and with siblings, write in each other's files in any order and move
// at random. Nothing is ever done that stands on something undone; taking back and doing again is the identity, for the
// workspace and for every agent's place; and taking the root's first task back gives what was before all of them.
func TestFamilyProperty(t *testing.T) {
	parents := map[Agent]Agent{"c1": "p", "c2": "p", "g1": "c1", "g2": "c2"}
	names := []Agent{"p", "c1", "c2", "g1", "g2"}
	rapid.Check(t, func(t *rapid.T) {
		w := &world{tree: New(), live: map[int]int{}, images: map[TaskID]map[int]int{}, at: map[TaskID]map[int]uint64{}, last: map[TaskID]map[int]uint64{}}
		value := 0
		begin := func(a Agent) {
			k := Task{ID: w.tree.Next(), Parent: w.tree.Active(a), Agent: a}
			for up := parents[a]; up != "" && k.Under == 0; up = parents[up] {
				k.Under = w.tree.Active(up)
			}
			if err := errors.Join(w.tree.Add(k), w.tree.SetActive(a, k.ID)); err != nil {
				t.Fatal(err)
			}
		}
		sealed := map[TaskID]bool{}
		for range rapid.IntRange(1, 60).Draw(t, "acts") {
			a := rapid.SampledFrom(names).Draw(t, "agent")
			switch rapid.IntRange(0, 9).Draw(t, "act") {
			case 0:
				if a == "p" || w.tree.Active("p") != 0 {
					begin(a)
				}
			case 1:
				to := TaskID(0)
				if all := w.tree.All(); len(all) > 0 {
					k := rapid.SampledFrom(all).Draw(t, "to")
					a, to = k.Agent, k.ID
				}
				if rapid.Bool().Draw(t, "parent") && to != 0 {
					k, _ := w.tree.Get(to)
					to = k.Parent
				}
				p, err := w.tree.PlanSwitch(a, to)
				if errors.Is(err, UnderUndone) {
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				if w.foreign(p) {
					continue // the engine refuses it
				}
				w.thereAndBack(t, p)
				for _, l := range p.Lines() {
					for _, id := range w.tree.Chain(l.From) {
						sealed[id] = true
					}
				}
			default:
				if w.tree.Active("p") == 0 {
					begin("p")
				}
				if at := w.tree.Active(a); at == 0 || sealed[at] {
					begin(a)
				}
				value++
				w.write(w.tree.Active(a), rapid.IntRange(0, 5).Draw(t, "thing"), value)
			}
		}
		p, err := w.tree.PlanSwitch("p", 0)
		if err != nil {
			t.Fatal(err)
		}
		w.thereAndBack(t, p)
		for thing, v := range w.live {
			if v != 0 {
				t.Fatalf("thing %d is %d after everything was taken back", thing, v)
			}
		}
	})
}

// thereAndBack makes a move that only takes back, then the way forward, and the move again; others it makes once.
func (w *world) thereAndBack(t *rapid.T, p Plan) {
	was := maps.Clone(w.live)
	w.move(t, p)
	w.consistent(t)
	if len(ids(p, true)) > 0 || len(p.Steps) == 0 {
		return
	}
	then := maps.Clone(w.live)
	forward, err := w.tree.PlanSwitch(p.Agent, p.From)
	if err != nil {
		t.Fatal(err)
	}
	w.move(t, forward)
	if !maps.Equal(w.live, was) {
		t.Fatalf("there and back: %v, was %v", w.live, was)
	}
	for _, l := range p.Lines() {
		if got := w.tree.Active(l.Agent); got != l.From {
			t.Fatalf("there and back: %s is at %d, was at %d", l.Agent, got, l.From)
		}
	}
	again, err := w.tree.PlanSwitch(p.Agent, p.To)
	if err != nil || !slices.Equal(again.Steps, p.Steps) || !slices.Equal(again.Along, p.Along) {
		t.Fatalf("the same move again is %+v, %v; was %+v", again, err, p)
	}
	w.move(t, again)
	if !maps.Equal(w.live, then) {
		t.Fatalf("there again: %v, was %v", w.live, then)
	}
}

// foreign says whether somebody who does not move has touched, later, what the plan moves: a conflict, which the engine refuses.
func (w *world) foreign(p Plan) bool {
	for _, s := range p.Steps {
		for thing, at := range w.at[s.Task] {
			for id, other := range w.last {
				if !p.Takes(id) && other[thing] > at && w.tree.StatusOf(id) != Undone {
					return true
				}
			}
		}
	}
	return false
}

// consistent: nothing is done that stands on what is undone.
func (w *world) consistent(t *rapid.T) {
	for _, k := range w.tree.All() {
		if w.tree.StatusOf(k.ID) == Undone {
			continue
		}
		for _, on := range []TaskID{k.Parent, k.Under} {
			if on != 0 && w.tree.StatusOf(on) == Undone {
				t.Fatalf("task %d is done and stands on %d, which is not", k.ID, on)
			}
		}
	}
}

// TestWeave: tasks stay whole where an order of whole tasks is exact, and are cut where none is.
func TestWeave(t *testing.T) {
	steps := []Step{{Task: 2}, {Task: 1}}
	for _, c := range []struct {
		name    string
		touched map[TaskID][]Touch[string]
		want    []Part[string]
	}{
		{"nested", map[TaskID][]Touch[string]{1: {{"x", 1}, {"y", 2}}, 2: {{"x", 3}, {"y", 4}}}, []Part[string]{{steps[0], nil}, {steps[1], nil}}},
		{"the older later", map[TaskID][]Touch[string]{1: {{"x", 3}}, 2: {{"x", 1}}}, []Part[string]{{steps[1], nil}, {steps[0], nil}}},
		{"both", map[TaskID][]Touch[string]{1: {{"x", 3}, {"y", 1}}, 2: {{"x", 1}, {"y", 3}}}, []Part[string]{
			{steps[0], []string{"y"}}, {steps[1], nil}, {steps[0], []string{"x"}}}},
		{"nothing", nil, []Part[string]{{steps[0], nil}, {steps[1], nil}}},
	} {
		got := Weave(steps, func(id TaskID) []Touch[string] { return c.touched[id] })
		if !slices.EqualFunc(got, c.want, func(a, b Part[string]) bool {
			return a.Step == b.Step && slices.Equal(a.Only, b.Only) && (a.Only == nil) == (b.Only == nil)
		}) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
