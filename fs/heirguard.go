package fs

// setGuard keeps for the next daemon that the guard was switched.
func (l *legacy) setGuard(on bool) {
	if l != nil {
		l.SetGuard(on)
	}
}

// guarded is whether the guard is on to begin with: as it was switched before, or else as configured.
func (l *legacy) guarded(configured bool) bool {
	if l != nil {
		if on, said := l.Guard(); said {
			return on
		}
	}
	return configured
}
