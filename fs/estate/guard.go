package estate

// What the head says of the guard; 0: nothing was said while the mount served.
const (
	guardOn  = 1
	guardOff = 2
)

// SetGuard keeps that the guard was switched while the mount serves.
func (e *Estate) SetGuard(on bool) {
	if on {
		e.head.guard.Store(guardOn)
	} else {
		e.head.guard.Store(guardOff)
	}
}

// Guard is what it was switched to; said: it was.
func (e *Estate) Guard() (on, said bool) {
	v := e.head.guard.Load()
	return v == guardOn, v == guardOn || v == guardOff
}
