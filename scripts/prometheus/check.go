package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"
)

// checkMetrics parses and lints the scrape in a file.
func checkMetrics(file string, out io.Writer) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	samples, err := parse(text)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	problems, err := lint(text)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	for _, problem := range problems {
		fmt.Fprintf(out, "%s %s\n", problem.Metric, problem.Text)
	}
	if len(problems) > 0 {
		return fmt.Errorf("%s: %d problems", file, len(problems))
	}
	fmt.Fprintf(out, "%d samples\n", len(samples))
	return nil
}

// prometheusRule is the object of the Prometheus Operator that holds a rule file.
type prometheusRule struct {
	Kind string    `yaml:"kind"`
	Spec yaml.Node `yaml:"spec"`
}

// checkRules parses rule files, or PrometheusRules, with their expressions and templates.
func checkRules(files []string, out io.Writer) error {
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		var object prometheusRule
		if err := yaml.Unmarshal(content, &object); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if object.Kind == "PrometheusRule" {
			if content, err = yaml.Marshal(&object.Spec); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
		}
		expressions := parser.NewParser(parser.Options{})
		groups, errs := rulefmt.Parse(content, false, model.UTF8Validation, expressions, slog.Default())
		for _, err := range errs {
			fmt.Fprintf(out, "%s: %v\n", file, err)
		}
		if len(errs) > 0 {
			return fmt.Errorf("%s: %d errors", file, len(errs))
		}
		rules := 0
		for _, group := range groups.Groups {
			rules += len(group.Rules)
		}
		if rules == 0 {
			return fmt.Errorf("%s: no rules", file)
		}
		fmt.Fprintf(out, "%s: %d rules\n", file, rules)
	}
	return nil
}
