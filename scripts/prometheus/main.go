// promcheck holds metrics, rules and queries against Prometheus itself, for the tests.
//
//	promcheck metrics FILE              parses a scrape as Prometheus does, and lints it as promtool does
//	promcheck native FILE               prints the names of native histograms of a scrape in Protobuf, as Prometheus parses it
//	promcheck rules FILE...             parses rule files and their expressions as Prometheus does
//	promcheck query DIR <EXPRESSIONS    evaluates expressions over the scrapes in DIR
//
// A scrape is a file named MILLISECONDS.txt with the response of /metrics at that time. `query` reads a list of expressions
// in JSON, appends the samples to Prometheus' database with the labels that Prometheus adds to those of a target, and
// evaluates each expression at the time of the last scrape. It prints a list in JSON with the number of series of each
// result that are not NaN.
package main

import (
	"fmt"
	"io"
	"os"
)

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "promcheck:", err)
		os.Exit(1)
	}
}

func run(args []string, in io.Reader, out io.Writer) error {
	if len(args) < 2 {
		return fmt.Errorf("usage: promcheck metrics FILE | native FILE | rules FILE... | query DIR")
	}
	switch args[0] {
	case "metrics":
		return checkMetrics(args[1], out)
	case "native":
		return printNative(args[1], out)
	case "rules":
		return checkRules(args[1:], out)
	case "query":
		return query(args[1], in, out)
	}
	return fmt.Errorf("unknown command %q", args[0])
}
