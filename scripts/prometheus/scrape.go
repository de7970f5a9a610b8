package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
)

// contentType is the media type that the host sends, and by which Prometheus chooses the parser.
const contentType = "application/openmetrics-text; version=1.0.0; charset=utf-8"

// protobufType is the media type of a scrape in Protobuf.
const protobufType = "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"

// sample is one value of a scrape.
type sample struct {
	labels labels.Labels
	value  float64
}

// parse returns the samples of a scrape, read by the parser that Prometheus scrapes with.
func parse(text []byte) ([]sample, error) {
	parser, err := textparse.New(text, contentType, labels.NewSymbolTable(), textparse.ParserOptions{})
	if err != nil {
		return nil, err
	}
	var samples []sample
	seen := map[string]bool{}
	for {
		entry, err := parser.Next()
		if errors.Is(err, io.EOF) {
			return samples, nil
		}
		if err != nil {
			return nil, fmt.Errorf("after %d samples: %w", len(samples), err)
		}
		if entry != textparse.EntrySeries {
			continue
		}
		var found sample
		parser.Labels(&found.labels)
		_, _, found.value = parser.Series()
		name := found.labels.String()
		if seen[name] {
			return nil, fmt.Errorf("two samples of %s", name)
		}
		seen[name] = true
		samples = append(samples, found)
	}
}

// nativeHistograms returns the names of native histograms of a scrape in Protobuf, sorted.
func nativeHistograms(scrape []byte) ([]string, error) {
	parser, err := textparse.New(scrape, protobufType, labels.NewSymbolTable(), textparse.ParserOptions{})
	if err != nil {
		return nil, err
	}
	var names []string
	for {
		entry, err := parser.Next()
		if errors.Is(err, io.EOF) {
			slices.Sort(names)
			return slices.Compact(names), nil
		}
		if err != nil {
			return nil, err
		}
		if entry != textparse.EntryHistogram {
			continue
		}
		var found labels.Labels
		parser.Labels(&found)
		if _, _, histogram, _ := parser.Histogram(); histogram == nil || histogram.Validate() != nil {
			return nil, fmt.Errorf("%s is not a valid histogram", found)
		}
		names = append(names, found.Get(model.MetricNameLabel))
	}
}

// printNative prints the names of native histograms in a file.
func printNative(file string, out io.Writer) error {
	scrape, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	names, err := nativeHistograms(scrape)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	for _, name := range names {
		fmt.Fprintln(out, name)
	}
	return nil
}

// lint returns what promtool finds in a scrape. promtool reads the older text format only, in which the family of a counter
// has the name of its sample.
func lint(text []byte) ([]promlint.Problem, error) {
	counters := map[string]bool{}
	for _, line := range lines(text) {
		if name, ok := strings.CutSuffix(line, " counter"); ok {
			counters[strings.TrimPrefix(name, "# TYPE ")] = true
		}
	}
	var classic bytes.Buffer
	for _, line := range lines(text) {
		word := strings.SplitN(line, " ", 4)
		if len(word) == 4 && (word[1] == "TYPE" || word[1] == "HELP") && counters[word[2]] {
			line = strings.Join([]string{word[0], word[1], word[2] + "_total", word[3]}, " ")
		}
		if line != "# EOF" {
			fmt.Fprintln(&classic, line)
		}
	}
	return promlint.New(&classic).Lint()
}

func lines(text []byte) []string {
	var found []string
	scanner := bufio.NewScanner(bytes.NewReader(text))
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		found = append(found, scanner.Text())
	}
	return found
}
