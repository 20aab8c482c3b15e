package treecmp

import (
	"crypto/sha256"
	"io"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// readAll fills in what must be read, a few files at a time: on a mount most of
// it is waiting for the other side.
func readAll(dir string, tree Tree) error {
	const readers = 4
	type answer struct {
		path  string
		entry Entry
		err   error
	}
	questions, answers := make(chan answer), make(chan answer)
	var group sync.WaitGroup
	for range readers {
		group.Go(func() {
			for q := range questions {
				q.entry.Sum, q.entry.Extents, q.err = content(filepath.Join(dir, q.path), q.entry.SizeBytes)
				answers <- q
			}
		})
	}
	var asked []answer
	for path, entry := range tree {
		if entry.Type == "file" {
			asked = append(asked, answer{path: path, entry: entry})
		}
	}
	go func() {
		for _, q := range asked {
			questions <- q
		}
		close(questions)
		group.Wait()
		close(answers)
	}()
	var failed error
	for a := range answers {
		if a.err != nil {
			failed = a.err
		}
		tree[a.path] = a.entry
	}
	return failed
}

func content(full string, sizeBytes int64) (sum [sha256.Size]byte, extents []Extent, err error) {
	f, err := os.Open(full)
	if err != nil {
		return sum, nil, err
	}
	defer f.Close()
	if extents, err = dataExtents(int(f.Fd()), sizeBytes); err != nil {
		return sum, nil, &os.PathError{Op: "seek data", Path: full, Err: err}
	}
	if _, err = unix.Seek(int(f.Fd()), 0, io.SeekStart); err != nil {
		return sum, nil, &os.PathError{Op: "seek", Path: full, Err: err}
	}
	hash := sha256.New()
	if _, err = io.Copy(hash, f); err != nil {
		return sum, nil, err
	}
	hash.Sum(sum[:0])
	return sum, extents, nil
}

// dataExtents lists where the file has data. A filesystem without SEEK_DATA
// gives one extent over all; the kernel does so by itself.
func dataExtents(fd int, sizeBytes int64) ([]Extent, error) {
	var extents []Extent
	for at := int64(0); at < sizeBytes; {
		start, err := unix.Seek(fd, at, unix.SEEK_DATA)
		if err == unix.ENXIO { // nothing but a hole up to the end
			break
		}
		if err != nil {
			return nil, err
		}
		end, err := unix.Seek(fd, start, unix.SEEK_HOLE)
		if err != nil {
			return nil, err
		}
		extents = append(extents, Extent{start, end})
		at = end
	}
	return extents, nil
}
