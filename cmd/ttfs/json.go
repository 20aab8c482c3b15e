package main

import (
	"encoding/json"
	"io"
)

// printJSON writes a value as the JSON files under `.tt/` are written.
func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
