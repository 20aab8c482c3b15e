package bench

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// row is a line of a table and what it is to reach, by DESIGN section 8.
type row struct{ name, reach string }

// table collects what is measured, and shows it.
type table struct {
	section string // of docs/performance.md
	head    string
	rows    []row
	columns []string
	times   map[[2]string][]time.Duration // by row and column
	notes   []string
}

func newTable(section, head string, rows []row) *table {
	return &table{section: section, head: head, rows: rows, times: map[[2]string][]time.Duration{}}
}

func (t *table) add(row, column string, times []time.Duration) {
	key := [2]string{row, column}
	t.times[key] = append(t.times[key], times...)
}

func (t *table) note(format string, args ...any) {
	if n := fmt.Sprintf(format, args...); !slices.Contains(t.notes, n) {
		t.notes = append(t.notes, n)
	}
}

// absent says why there is no such column.
func (t *table) absent(column, why string) {
	t.note("No column for %s: %s.", column, strings.TrimSuffix(why, "."))
}

// micros is the median and the 99th percentile.
func micros(_ *table, _ string, times []time.Duration) string {
	m, p := median(times), quantile(times, 0.99)
	return short(float64(m)/1e3) + " (" + short(float64(p)/1e3) + ")"
}

// ratios are medians in units of the native column's, which itself is in milliseconds.
func ratios(t *table, row string, times []time.Duration) string {
	bare := t.times[[2]string{row, native}]
	ms := short(float64(median(times))/1e6) + " ms"
	if len(bare) == 0 || &bare[0] == &times[0] {
		return ms
	}
	return fmt.Sprintf("%.2f", float64(median(times))/float64(median(bare)))
}

// short shows two or three digits.
func short(v float64) string {
	switch {
	case v >= 20:
		return fmt.Sprintf("%.0f", v)
	case v >= 2:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}

// markdown shows the table; rows that nobody measured are left out.
func (t *table) markdown(cell func(*table, string, []time.Duration) string) string {
	lines := [][]string{append([]string{t.head}, append(slices.Clone(t.columns), "to reach")...)}
	for _, r := range t.rows {
		line, seen := []string{r.name}, false
		for _, c := range t.columns {
			times := t.times[[2]string{r.name, c}]
			if len(times) == 0 {
				line = append(line, "")
				continue
			}
			line, seen = append(line, cell(t, r.name, times)), true
		}
		if seen {
			lines = append(lines, append(line, r.reach))
		}
	}
	return grid(lines) + notes(t.notes)
}

// grid is lines of cells as a table, the first its head.
func grid(lines [][]string) string {
	var out strings.Builder
	for i, line := range lines {
		out.WriteString("| " + strings.Join(line, " | ") + " |\n")
		if i == 0 {
			out.WriteString(strings.Repeat("|---", len(line)) + "|\n")
		}
	}
	return out.String()
}

func notes(all []string) string {
	if len(all) == 0 {
		return ""
	}
	return "\n" + strings.Join(all, "\n\n") + "\n"
}

// publish prints the table and keeps it in docs/performance.md.
func (t *table) publish(b *testing.B, how string, cell func(*table, string, []time.Duration) string) {
	b.Helper()
	publish(b, t.section, how, t.markdown(cell))
}

// envDoc is the page into which results go; "": nowhere.
const envDoc = "BENCH_DOC"

// publish prints a section, and writes it into the page between its markers, with what it was measured on.
func publish(b *testing.B, section, how, body string) {
	b.Helper()
	body = how + " " + stamp(b) + "\n\n" + body
	fmt.Printf("\n== %s\n%s\n", section, body)
	path := os.Getenv(envDoc)
	if path == "" || b.Failed() { // what failed half way is no result
		return
	}
	page, err := os.ReadFile(path)
	must(b, err)
	page, err = between(page, section, body)
	must(b, err)
	page, err = between(page, "environment", environment(b))
	must(b, err)
	must(b, os.WriteFile(path, page, 0o644))
}

// between replaces what is between the markers of a section.
func between(page []byte, section, body string) ([]byte, error) {
	open, end := "<!-- bench:"+section+" -->\n", "<!-- /bench:"+section+" -->"
	at := regexp.MustCompile("(?s)" + regexp.QuoteMeta(open) + ".*?" + regexp.QuoteMeta(end))
	if len(at.FindAllIndex(page, -1)) != 1 {
		return nil, fmt.Errorf("the page has not one pair of markers %s", strings.TrimSpace(open))
	}
	return at.ReplaceAllLiteral(page, []byte(open+body+end)), nil
}

// TestTable: what a reader sees of medians, ratios, absent columns and empty rows.
func TestTable(t *testing.T) {
	table := newTable("s", "job", []row{{"one", "≤ 2"}, {"never run", ""}, {"two", ""}})
	table.columns = []string{native, "ttfs"}
	table.add("one", native, []time.Duration{4e6, 2e6, 3e6})
	table.add("one", "ttfs", []time.Duration{6e6})
	table.add("two", "ttfs", []time.Duration{7e6})
	table.absent("libfuse", "there is none.")
	want := "| job | native | ttfs | to reach |\n|---|---|---|---|\n| one | 3.0 ms | 2.00 | ≤ 2 |\n| two |  | 7.0 ms |  |\n\nNo column for libfuse: there is none.\n"
	if got := table.markdown(ratios); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := micros(table, "", []time.Duration{1500, 1600, 250_000}); got != "1.60 (250)" {
		t.Errorf("got %s", got)
	}
}

// TestBetween: only what is between the markers changes, whatever it holds, and a page without them is refused.
func TestBetween(t *testing.T) {
	page := []byte("a\n<!-- bench:x -->\nold\n<!-- /bench:x -->\nb\n<!-- bench:y -->\n<!-- /bench:y -->\n")
	got, err := between(page, "x", "$1 new\n")
	if want := "a\n<!-- bench:x -->\n$1 new\n<!-- /bench:x -->\nb\n<!-- bench:y -->\n<!-- /bench:y -->\n"; err != nil || string(got) != want {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := between(page, "z", ""); err == nil {
		t.Error("markers that are not there were found")
	}
}

// TestPageHasMarkers: each section that is measured has its place in the page.
func TestPageHasMarkers(t *testing.T) {
	page, err := os.ReadFile("../../docs/performance.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, section := range sections {
		if _, err := between(page, section, ""); err != nil {
			t.Error(err)
		}
	}
}
