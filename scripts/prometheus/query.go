package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/tsdb"
)

// target is what Prometheus adds to the samples of a Pod behind a ServiceMonitor. A label of the sample with such a name
// becomes exported_NAME, as without honorLabels.
var target = labels.FromStrings(
	"container", "manager", "endpoint", "https", "instance", "10.0.0.1:8443", "job", "operetta",
	"namespace", "operetta-system", "pod", "operetta-0", "service", "operetta",
)

// answer is the result of one expression.
type answer struct {
	Expression string `json:"expression"`
	// Series is the number of series of the result whose value is a number.
	Series int `json:"series"`
	// Absent names the metrics in the expression that no scrape has.
	Absent []string `json:"absent"`
}

// query evaluates the expressions in `in` over the scrapes in a folder.
func query(folder string, in io.Reader, out io.Writer) (err error) {
	var expressions []string
	if err := json.NewDecoder(in).Decode(&expressions); err != nil {
		return fmt.Errorf("a list of expressions: %w", err)
	}
	data, err := os.MkdirTemp("", "promcheck")
	if err != nil {
		return err
	}
	defer os.RemoveAll(data)
	options := tsdb.DefaultOptions()
	options.MinBlockDuration = int64(24 * time.Hour / time.Millisecond)
	options.MaxBlockDuration = options.MinBlockDuration
	db, err := tsdb.Open(data, promslog.NewNopLogger(), nil, options, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	last, names, err := load(db, folder)
	if err != nil {
		return err
	}
	answers := make([]answer, 0, len(expressions))
	expressionParser := parser.NewParser(parser.Options{})
	engine := promql.NewEngine(promql.EngineOpts{
		MaxSamples: 10_000_000, Timeout: time.Minute, EnableAtModifier: true, EnableNegativeOffset: true,
		Parser: expressionParser,
	})
	for _, expression := range expressions {
		series, err := evaluate(engine, db, expression, last)
		if err != nil {
			return fmt.Errorf("%s: %w", expression, err)
		}
		absent, err := absentMetrics(expressionParser, expression, names)
		if err != nil {
			return fmt.Errorf("%s: %w", expression, err)
		}
		answers = append(answers, answer{expression, series, absent})
	}
	return json.NewEncoder(out).Encode(answers)
}

// load appends the scrapes in a folder to the database, oldest first. It returns the time of the last one, and the names
// of all metrics.
func load(db *tsdb.DB, folder string) (time.Time, map[string]bool, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.txt"))
	if err != nil {
		return time.Time{}, nil, err
	}
	times := map[string]int64{}
	for _, file := range files {
		millis, err := strconv.ParseInt(strings.TrimSuffix(filepath.Base(file), ".txt"), 10, 64)
		if err != nil {
			return time.Time{}, nil, fmt.Errorf("%s: not MILLISECONDS.txt", file)
		}
		times[file] = millis
	}
	if len(files) < 2 {
		return time.Time{}, nil, fmt.Errorf("%s: %d scrapes, a rate needs two", folder, len(files))
	}
	slices.SortFunc(files, func(a, b string) int { return int(times[a] - times[b]) })
	names := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return time.Time{}, nil, err
		}
		samples, err := parse(text)
		if err != nil {
			return time.Time{}, nil, fmt.Errorf("%s: %w", file, err)
		}
		samples = append(samples, sample{labels.FromStrings(labels.MetricName, "up"), 1})
		appender := db.Appender(context.Background())
		for _, sample := range samples {
			names[sample.labels.Get(labels.MetricName)] = true
			if _, err := appender.Append(0, scraped(sample.labels), times[file], sample.value); err != nil {
				return time.Time{}, nil, errors.Join(fmt.Errorf("%s: %w", file, err), appender.Rollback())
			}
		}
		if err := appender.Commit(); err != nil {
			return time.Time{}, nil, err
		}
	}
	return time.UnixMilli(times[files[len(files)-1]]), names, nil
}

// scraped adds the labels of the target.
func scraped(of labels.Labels) labels.Labels {
	builder := labels.NewBuilder(of)
	target.Range(func(label labels.Label) {
		if own := of.Get(label.Name); own != "" {
			builder.Set("exported_"+label.Name, own)
		}
		builder.Set(label.Name, label.Value)
	})
	return builder.Labels()
}

func evaluate(engine *promql.Engine, db *tsdb.DB, expression string, at time.Time) (int, error) {
	query, err := engine.NewInstantQuery(context.Background(), db, nil, expression, at)
	if err != nil {
		return 0, err
	}
	defer query.Close()
	vector, err := query.Exec(context.Background()).Vector()
	if err != nil {
		return 0, err
	}
	count := 0
	for _, sample := range vector {
		if !math.IsNaN(sample.F) {
			count++
		}
	}
	return count, nil
}

// absentMetrics returns the metrics that an expression selects by name and that are not among `names`.
func absentMetrics(expressions parser.Parser, expression string, names map[string]bool) ([]string, error) {
	parsed, err := expressions.ParseExpr(expression)
	if err != nil {
		return nil, err
	}
	absent := []string{}
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		if selector, ok := node.(*parser.VectorSelector); ok && !names[selector.Name] {
			absent = append(absent, selector.Name)
		}
		return nil
	})
	return absent, nil
}
