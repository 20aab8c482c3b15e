package overlay

// asideTries is how many moves exclusiveAside lets go before it.
const asideTries = 16

// exclusiveAside is exclusive for whoever has no claim that others would meet: while moves are under way it waits for them
// without keeping back the tasks and moves that would begin meanwhile, since those may meet neither. After some rounds it takes its turn.
func (e *Engine) exclusiveAside() (release func()) {
	for range asideTries {
		if release, ok := e.exclusiveNow(); ok {
			return release
		}
		for _, o := range e.gate.list() {
			if o.moves {
				<-o.done
				break
			}
		}
	}
	return e.exclusive()
}
