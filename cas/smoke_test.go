package cas

import "testing"

func TestRoundTrip(t *testing.T) {
	s, err := Open(t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	ref, err := s.Put([]byte("hello"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := s.Get(ref)
	if err != nil || string(b) != "hello" {
		t.Fatalf("Get = %q, %v", b, err)
	}
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
}
