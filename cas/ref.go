package cas

import (
	"encoding/hex"
	"fmt"

	"github.com/zeebo/blake3"
)

// Ref names content: its BLAKE3-256. The zero Ref names nothing.
type Ref [32]byte

// SumBytes returns the ref of b, whether or not a store holds it.
func SumBytes(b []byte) Ref { return blake3.Sum256(b) }

// String returns the ref as 64 lower-case hexadecimal digits.
func (r Ref) String() string { return hex.EncodeToString(r[:]) }

// IsZero says whether r names nothing.
func (r Ref) IsZero() bool { return r == Ref{} }

// ParseRef is the inverse of [Ref.String].
//
// Shape: exactly 64 digits of 0-9a-f; capitals are refused, so that a ref has
// one spelling.
//
// Errors: [ErrFormat].
func ParseRef(s string) (Ref, error) {
	var r Ref
	bad := func() (Ref, error) {
		return Ref{}, &Error{Op: "parse ref", What: fmt.Sprintf("%.80q is not 64 lower-case hexadecimal digits", s), Kind: ErrFormat}
	}
	if len(s) != 2*len(r) {
		return bad()
	}
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return bad()
		}
	}
	if _, err := hex.Decode(r[:], []byte(s)); err != nil {
		return bad()
	}
	return r, nil
}
