package overlay

import (
	"slices"

	"github.com/ttfs/ttfs/cas"
	"github.com/ttfs/ttfs/journal"
)

// addForkReferences adds what forks refer to: of this engine's objects and copies, those that its own images of epochs do
// not name; of the blobs, which all share, what the images of forks of any depth name. In a fork, what was raised may be
// named in the lower only, and is needed as long as the fork is.
func (e *Engine) addForkReferences(r *references) error {
	if e.lower != nil {
		err := e.j.Scan([]byte{kOrigin}, func(k, _ []byte) error {
			r.objects[OID(keyNum(k, 0))] = true
			return nil
		})
		if err != nil {
			return storeError("find out what is needed", err)
		}
	}
	return addPartBlobs(e.j, r)
}

// addPartBlobs adds the blobs that the images in the parts of a journal name.
func addPartBlobs(j Journal, r *references) error {
	var parts []*journal.Sub
	err := j.Scan([]byte{kFork}, func(k, v []byte) error {
		f, err := decodeFork(ForkName(k[1:]), v)
		parts = append(parts, j.Sub(f.part()))
		return err
	})
	if err != nil {
		return storeError("find out what forks need", err)
	}
	for _, part := range parts {
		of := &references{objects: map[OID]bool{}, copies: map[copyID]bool{}, blobs: map[cas.Ref]bool{}}
		for _, before := range [][]byte{nil, {kNew}} {
			prefix := append(slices.Clone(before), kPiece)
			if err := part.Scan(prefix, func(k, v []byte) error { return of.add(k[len(before):], v) }); err != nil {
				return storeError("find out what forks need", err)
			}
		}
		for ref := range of.blobs {
			r.blobs[ref] = true
		}
		if err := addPartBlobs(part, r); err != nil {
			return err
		}
	}
	return nil
}
