// Package report writes measurements: one as text for a terminal, many as a Markdown
// report with pictures, as JSON lines, or in the format that benchstat reads.
package report
