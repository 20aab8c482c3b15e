package cas

import (
	"context"
	"errors"
	"time"
)

// giveBackWait bounds the waiting for files to go that nothing needs.
const giveBackWait = 10 * time.Second

// giveBackLook is how often GiveBack looks whether it is still wanted.
const giveBackLook = 20 * time.Millisecond

// GiveBack makes what Collect removed free space on the disk now, by writing what is left anew; without it pebble comes to
// that in its own time. It needs room for what is left meanwhile.
//
// Errors: ErrStopped, ErrNoSpace when there is not the room (nothing was done), ErrIO, ErrReadOnly, ErrClosed.
func (s *Store) GiveBack(ctx context.Context) error {
	const op = "give back"
	if err := s.checkWritable(op); err != nil {
		return err
	}
	if err := s.enter(op, Ref{}); err != nil {
		return err
	}
	defer s.leave()
	if err := s.room(op, 4<<20, s.floor/4); err != nil {
		return err
	}
	// A flush that fails never ends (pebble 2.1.7), so somebody has to look.
	ctx, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(giveBackLook)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if s.checkGoing(ctx, op) != nil || s.room(op, 0, s.floor/8) != nil {
					stop()
				}
			}
		}
	}()
	err := s.db.Compact(ctx, []byte{prefixChunk}, []byte{prefixList + 1}, false)
	// Pebble removes the files one by one in the background.
	for t := time.Now(); err == nil && time.Since(t) < giveBackWait && s.db.Metrics().Table.ObsoleteSize > 0; {
		select {
		case <-ctx.Done():
			err = ctx.Err()
		case <-time.After(giveBackLook):
		}
	}
	stop()
	<-done
	if errors.Is(err, context.Canceled) {
		if going := s.checkGoing(context.Background(), op); going != nil {
			return going
		}
		if room := s.room(op, 0, s.floor/8); room != nil {
			return room
		}
		return &Error{Op: op, Kind: ErrStopped, Err: err}
	}
	return s.committed(op, Ref{}, err)
}
